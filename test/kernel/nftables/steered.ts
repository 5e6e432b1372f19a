import { steeredPort } from '../../../src/capture/steering.ts'
import type { KernelSettings } from '../../../src/kernel/proxier.ts'
import { proxyAddressOf } from '../../../src/kernel/proxy-address.ts'
import { loopbackKey } from '../../../src/mode/hybrid-mode.ts'
import type { ServicePort, Vip } from '../../../src/model/snapshot.ts'

/** What was steered stays the same object, as a mode has it. */
export class Steering {
  readonly #known = new WeakMap<ServicePort, readonly ServicePort[]>()

  /** All of them, or those that ask for the relay, are steered; with a relay alone there is no SCTP. */
  of(
    servicePorts: Iterable<ServicePort>,
    { relay }: KernelSettings,
  ): ReadonlyMap<string, ServicePort> {
    const isAlone = relay?.serves === 'alone'
    const all = [...servicePorts].flatMap(one => {
      const isCarried = one.protocol !== 'SCTP'
      if (relay === undefined || (!isAlone && !(one.relayed && isCarried))) return [one]
      return isCarried ? this.#steered(one) : []
    })
    return new Map(all.map(one => [one.key, one]))
  }

  #steered(one: ServicePort): readonly ServicePort[] {
    const known = this.#known.get(one) ?? sidesOf(one)
    this.#known.set(one, known)
    return known
  }
}

const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const

/** Load-balancer IPs have a port of their own, as their clients may be other ones. */
const sidesOf = (one: ServicePort): readonly ServicePort[] => {
  const address = proxyAddressOf[one.family]
  const proxyPort = 40_000 + one.serviceName.charCodeAt(0)
  const at = (vip: Vip) => {
    const isApart = vip.kind === 'LoadBalancerIP'
    const bind = { address, port: isApart ? proxyPort + 1000 : proxyPort }
    return { vip, capture: 'nftables', binds: [bind], reason: '' } as const
  }
  const onLoopback = {
    ...one,
    key: loopbackKey(one),
    vips: one.vips
      .filter(({ kind }) => kind === 'NodePort')
      .map(({ kind, port }) => ({ kind, port, address: loopback[one.family] })),
  }
  return [one, onLoopback].flatMap(
    servicePort => steeredPort({ servicePort, vips: servicePort.vips.map(at) }) ?? [],
  )
}
