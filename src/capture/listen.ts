import { isDeepStrictEqual } from 'node:util'
import type { Problem, ServicePort } from '../model/snapshot.ts'
import {
  familyOf,
  ipFamilies,
  type IpFamily,
  isWildcard,
  wildcardOf,
} from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { type Capture, listenerId, type Placement, type VipPlacement } from './capture.ts'
import { interfaceAddresses, whichAreLocal } from './local-addresses.ts'
import {
  type Host,
  type ListenCaptureDeps,
  placeServicePort,
  type ProxyAddress,
  proxyPortId,
} from './place-service-port.ts'
import { vipGroupNames } from './vip-group.ts'

/**
 * The two captures that need no rules of the kernel's: clients dial an address on which
 * the relay itself listens, the VIP or a proxy port. Also what finds proxy ports for the
 * captures with rules.
 */
export const listenCapture = (deps: ListenCaptureDeps): Capture => new ListenCapture(deps)

class ListenCapture implements Capture {
  readonly #deps: ListenCaptureDeps
  readonly #placements = new KeyedList<ServicePort, Placement>(listenerId)
  /** Of the answers of LocalAddresses that the placements rest on. */
  #era = 0
  /** The proxy addresses and node-port CIDRs that they rest on, and how many proxy ports were lost. */
  #basis = ''
  /** Whether some VIP got no proxy port, as far as is known. */
  #short = false

  constructor(deps: ListenCaptureDeps) {
    this.#deps = deps
  }

  /** What the host has for addresses is looked at anew for all when it may be old. */
  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    const { mode, localAddresses, proxyPorts } = this.#deps
    const { era } = localAddresses
    const basis = basisOf(this.#deps)
    const all = era !== this.#era || basis !== this.#basis
    const suspects = all ? servicePorts : this.#placements.changed(servicePorts)
    const hasProxyPorts = mode === 'none' || mode === 'listen'
    const local =
      mode === 'none' ? new Set<string>() : await whichAreLocal(localAddresses, suspects)
    const host = hostOf(this.#deps, local)
    const make = async (servicePort: ServicePort, before: Placement | undefined) => {
      const placement = await placeServicePort(this.#deps, host, servicePort)
      if (hasProxyPorts && placement.vips.some(isNotCaptured)) this.#short = true
      return before && samePlacement(before, placement) ? before : placement
    }
    let released = false
    const gone = (id: string): void => {
      released = true
      for (const group of vipGroupNames) proxyPorts.release(proxyPortId(id, group))
    }
    const wasShort = this.#short
    if (all) this.#short = false
    const placements = await this.#placements.update(servicePorts, make, { all, gone })
    this.#era = era
    this.#basis = basis
    if (all || !wasShort || !released) return placements
    // A port that was released may do for VIPs that got none: all are looked at once more.
    this.#era = 0
    return this.place(servicePorts)
  }

  /** Clients dial where the relay listens: there is nothing to lead. */
  async steer(): Promise<void> {}

  problems(): readonly Problem[] {
    return []
  }

  /** Not possible without rules: clients who dial while there is no listener are refused. */
  async hold(): Promise<void> {}

  async close(): Promise<void> {}
}

const basisOf = ({
  proxyAddress,
  nodePortCidrs,
  proxyPorts,
}: ListenCaptureDeps): string =>
  JSON.stringify([
    ...ipFamilies.map(one => [proxyAddress(one), nodePortCidrs?.(one)]),
    proxyPorts.losses,
  ])

const hostOf = (deps: ListenCaptureDeps, local: ReadonlySet<string>): Host => ({
  local,
  ofInterfaces: oncePerFamily(deps.ofInterfaces ?? interfaceAddresses),
  nodePortCidrs: oncePerFamily(family => deps.nodePortCidrs?.(family)),
})

const isNotCaptured = ({ capture }: VipPlacement): boolean => capture === 'not captured'

const samePlacement = (a: Placement, b: Placement): boolean =>
  a.servicePort === b.servicePort && isDeepStrictEqual(a.vips, b.vips)

/** The list of interfaces costs a system call for each of them. */
const oncePerFamily = <T>(ask: (family: IpFamily) => T): ((family: IpFamily) => T) => {
  const known = new Map<IpFamily, { readonly answer: T }>()
  return family => {
    const found = known.get(family) ?? { answer: ask(family) }
    known.set(family, found)
    return found.answer
  }
}

/**
 * Proxy ports on the address of --bind-address. A wildcard stands for the wildcard of
 * either family.
 */
export const boundProxyAddress =
  (bindAddress: string) =>
  (family: IpFamily): ProxyAddress => {
    if (isWildcard(bindAddress)) return { address: wildcardOf(family) }
    if (familyOf(bindAddress) === family) return { address: bindAddress }
    return { reason: `--bind-address ${bindAddress} is not an ${family} address` }
  }
