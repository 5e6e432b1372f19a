import type { Endpoint, ServicePort, Target, Vip } from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import * as objects from '../../support/objects.ts'
import { servicePort } from '../../support/service-ports.ts'
import type { Random } from './random.ts'

/** What may be dialled, and who answers. */
const places = {
  IPv4: {
    vip: (n: number) => `10.96.0.${n}`,
    endpoint: (n: number) => `10.244.0.${n}`,
    any: '0.0.0.0',
    ranges: [[], ['198.51.100.0/24'], ['198.51.100.0/24', '192.0.2.7/32'], ['0.0.0.0/0']],
  },
  IPv6: {
    vip: (n: number) => `fd00:96::${n}`,
    endpoint: (n: number) => `fd00:244::${n}`,
    any: '::',
    ranges: [[], ['2001:db8:51::/64'], ['2001:db8:51::/64', '2001:db8::7/128'], ['::/0']],
  },
} as const

const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'] as const
const protocols = ['TCP', 'UDP', 'SCTP'] as const
const affinities = [0, 0, 0, 1000, 1500, 10_800_000]

/** Services that come and go and change, and never claim what another has. */
export class Crowd {
  readonly #random: Random
  readonly #family: IpFamily
  readonly #all = new Map<string, ServicePort>()

  constructor(random: Random, family: IpFamily) {
    this.#random = random
    this.#family = family
  }

  get servicePorts(): ReadonlyMap<string, ServicePort> {
    return new Map(this.#all)
  }

  /** One thing or several, at once. */
  change(): void {
    const times = this.#random.pick([0, 1, 1, 1, 2, 3, 8])
    for (let i = 0; i < times; i++) this.#changeOne()
  }

  #changeOne(): void {
    const random = this.#random
    const { key, serviceName, protocol } = this.#blank()
    const old = this.#all.get(key)
    const what = random.next()
    if (old === undefined) this.#put(this.#filled(serviceName, protocol))
    else if (what < 0.15) this.#all.delete(key)
    // Another object that says the same.
    else if (what < 0.25) this.#put({ ...old })
    else if (what < 0.5) this.#put(this.#withEndpoints(old))
    else if (what < 0.57) this.#put({ ...old, affinityMs: random.pick(affinities) })
    else if (what < 0.65) this.#put(withRelay(old, old.relayed !== true))
    else if (what < 0.75) this.#moveVip(old)
    else this.#put(this.#filled(serviceName, protocol))
  }

  #blank(): ServicePort {
    const protocol = this.#random.pick(protocols)
    const name = this.#random.pick(names)
    return servicePort(name, { protocol, family: this.#family })
  }

  #put(one: ServicePort): void {
    this.#all.delete(one.key)
    const free = one.vips.filter(vip => !this.#isTaken(vip, one))
    this.#all.set(one.key, { ...one, vips: free })
  }

  #isTaken(vip: Vip, { protocol }: ServicePort): boolean {
    return [...this.#all.values()].some(
      other => other.protocol === protocol && other.vips.some(its => isSame(its, vip)),
    )
  }

  #moveVip(from: ServicePort): void {
    const others = [...this.#all.values()].filter(
      ({ key, protocol }) => key !== from.key && protocol === from.protocol,
    )
    const [vip, ...rest] = from.vips
    if (vip === undefined || others.length === 0) return
    const to = this.#random.pick(others)
    this.#all.set(from.key, { ...from, vips: rest })
    this.#all.set(to.key, { ...to, vips: [...to.vips, vip] })
  }

  #filled(name: string, protocol: ServicePort['protocol']): ServicePort {
    const random = this.#random
    const { vip, any, ranges } = places[this.#family]
    const ofKind = (kind: Vip['kind'], from: number, most: number): Vip[] =>
      Array.from({ length: random.below(most + 1) }, () => ({
        kind,
        address: vip(from + random.below(4)),
        port: random.pick([80, 443]),
      }))
    const nodePorts = random.chance(0.5)
      ? [{ kind: 'NodePort', address: any, port: 30_000 + random.below(5) } as const]
      : []
    const all: Vip[] = [
      ...ofKind('ClusterIP', 10, 1),
      ...ofKind('ExternalIP', 20, 2),
      ...ofKind('LoadBalancerIP', 30, 2),
      ...nodePorts,
    ]
    const vips = all.filter((one, at) => all.findIndex(it => isSame(it, one)) === at)
    return this.#withEndpoints({
      ...withRelay(
        servicePort(name, { protocol, family: this.#family }),
        random.chance(0.4),
      ),
      vips,
      affinityMs: random.pick(affinities),
      sourceRanges: random.chance(0.5)
        ? undefined
        : random.pick<readonly string[]>(ranges),
    })
  }

  #withEndpoints(one: ServicePort): ServicePort {
    const random = this.#random
    const here = places[this.#family]
    const most = random.pick([0, 2, 5, 12])
    const endpoints = Array.from({ length: most }, (_, n) => n + 1)
      .filter(() => random.chance(0.7))
      .map(n => endpointOf(here.endpoint(n), nodeOf(n)))
    const [internal, external] = [random.chance(0.3), random.chance(0.5)]
    const targets = {
      internal: this.#target(endpoints, internal),
      external: this.#target(endpoints, external),
      externalFromNode: this.#target(endpoints, false),
    }
    const reachable = endpoints.filter(endpoint =>
      Object.values(targets).some(target => target.endpoints.includes(endpoint)),
    )
    return {
      ...one,
      ...targets,
      internalTrafficPolicy: internal ? 'Local' : 'Cluster',
      externalTrafficPolicy: external ? 'Local' : 'Cluster',
      endpoints,
      reachable,
    }
  }

  #target(all: readonly Endpoint[], isLocal: boolean): Target {
    const some = isLocal ? all.filter(({ nodeName }) => nodeName !== 'there') : all
    // Hints leave some out.
    const hinted = this.#random.chance(0.2) ? this.#random.some(some) : some
    const endpoints = hinted.length === 0 ? some : hinted
    if (endpoints.length > 0) return { verdict: 'forward', endpoints }
    return { verdict: all.length > 0 ? 'drop' : 'reject', endpoints }
  }
}

const withRelay = (
  { relayed: _before, ...rest }: ServicePort,
  isRelayed: boolean,
): ServicePort => ({ ...rest, ...(isRelayed && { relayed: true }) })

const endpointOf = (address: string, nodeName: string): Endpoint => ({
  ...objects.endpoint(address, { nodeName }),
  port: 8080,
})

const nodeOf = (n: number): string => ['here', 'there', 'there', ''][n % 4] ?? ''

const isSame = (a: Vip, b: Vip): boolean => {
  if (a.port !== b.port) return false
  return a.kind === 'NodePort' || b.kind === 'NodePort'
    ? a.kind === b.kind
    : a.address === b.address
}
