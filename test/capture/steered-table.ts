import { isDeepStrictEqual } from 'node:util'
import type { VipRule } from '../../src/capture/iptables/vip-rule.ts'
import type { SteeringRules } from '../../src/capture/steering.ts'
import { type KernelSync, plainSettings } from '../../src/kernel/proxier.ts'
import type { ServicePort, Target } from '../../src/model/snapshot.ts'
import { type IpFamily, wildcardOf } from '../../src/util/ip.ts'
import { servicePort } from '../support/service-ports.ts'

export const proxyAddresses: Readonly<Record<IpFamily, string>> = {
  IPv4: '169.254.77.88',
  IPv6: 'fd75:7368:6572::1',
}

/** A VIP that is steered, and what becomes of its clients. */
export type SteeredVip = Omit<VipRule, 'key'>

const keyOf = ({ address = '*', protocol, port }: SteeredVip): string =>
  `${address} ${protocol} ${port}`

/** A ServicePort with this VIP alone. */
export const steeredOf = (vip: SteeredVip): ServicePort => {
  const { name, family, kind, protocol, port, to, outside, fromNode } = vip
  const { address = wildcardOf(family), allowedClients } = vip
  const target = (verdict: Target['verdict']): Target => ({ verdict, endpoints: [] })
  return servicePort(name, {
    key: keyOf(vip),
    name,
    family,
    protocol,
    vips: [{ kind, address, port }],
    steeredTo: [to],
    internal: target(outside),
    external: target(outside),
    externalFromNode: target(fromNode),
    externalTrafficPolicy: outside === fromNode ? 'Cluster' : 'Local',
    sourceRanges: allowedClients,
  })
}

export interface TableSettings {
  readonly nodePortCidrs: readonly string[] | undefined
  readonly podCidrs: readonly string[]
  readonly healthCheckPorts: readonly number[]
}

/** Rules of a family, by VIPs. */
export class SteeredTable {
  readonly rules: SteeringRules
  readonly #family: IpFamily
  #servicePorts = new Map<string, ServicePort>()
  #settings: TableSettings = {
    nodePortCidrs: undefined,
    podCidrs: [],
    healthCheckPorts: [],
  }

  constructor(rules: SteeringRules, family: IpFamily) {
    this.rules = rules
    this.#family = family
  }

  /** All of it is written. */
  replace(vips: readonly SteeredVip[], settings: TableSettings): Promise<KernelSync> {
    this.rules.forget()
    return this.sync(vips, settings)
  }

  /** Those that are there stay the same objects. */
  sync(vips: readonly SteeredVip[], settings: TableSettings): Promise<KernelSync> {
    this.#settings = settings
    const before = this.#servicePorts
    this.#servicePorts = new Map(
      vips.map(vip => {
        const [known, now] = [before.get(keyOf(vip)), steeredOf(vip)]
        return [keyOf(vip), known && isDeepStrictEqual(known, now) ? known : now]
      }),
    )
    return this.#sync()
  }

  /** What differs is written. */
  change(gone: readonly SteeredVip[], come: readonly SteeredVip[]): Promise<KernelSync> {
    for (const vip of gone) this.#servicePorts.delete(keyOf(vip))
    for (const vip of come) this.#servicePorts.set(keyOf(vip), steeredOf(vip))
    return this.#sync()
  }

  hold(): Promise<void> {
    return this.rules.hold()
  }

  release(): Promise<void> {
    return this.rules.release()
  }

  remove(): Promise<void> {
    return this.rules.remove()
  }

  watch(damaged: (what: string) => void): () => void {
    return this.rules.watch(damaged)
  }

  #sync(): Promise<KernelSync> {
    const { nodePortCidrs, podCidrs, healthCheckPorts } = this.#settings
    const healthChecks = healthCheckPorts.map(
      port =>
        [`default/${port}`, { ...healthCheck, serviceName: String(port), port }] as const,
    )
    const snapshot = {
      family: this.#family,
      servicePorts: new Map(this.#servicePorts),
      healthChecks: new Map(healthChecks),
    }
    return this.rules.sync(snapshot, {
      ...plainSettings,
      nodePortCidrs,
      relay: { serves: 'alone', nodePods: podCidrs },
    })
  }
}

const healthCheck = { namespace: 'default', localReady: 1 }
