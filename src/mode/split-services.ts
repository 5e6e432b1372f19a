import type { ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { SortedMap } from '../model/sorted-map.ts'
import type { IpFamily } from '../util/ip.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'

/** What of the wanted state is whose. */
export interface Split {
  readonly kernel: readonly Snapshot[]
  readonly relay: readonly Snapshot[]
}

/** Divides Services between rules of the kernel's and a relay. */
export class ServiceSplitter {
  readonly #localhostNodePorts: boolean
  /** What is the same object stays so. */
  readonly #onLoopback = new WeakMap<ServicePort, ServicePort>()

  /** `localhostNodePorts`: node ports on loopback, which the kernel can't lead elsewhere. */
  constructor(localhostNodePorts: boolean) {
    this.#localhostNodePorts = localhostNodePorts
  }

  split(snapshots: readonly Snapshot[]): Split {
    return {
      kernel: snapshots.map(unrelayed),
      relay: snapshots.map(one => this.#relayed(one)),
    }
  }

  #relayed(snapshot: Snapshot): Snapshot {
    const all = listOfServicePorts(snapshot)
    const relayed = all.filter(one => one.relayed)
    const onLoopback = this.#localhostNodePorts
      ? all.flatMap(one => this.#loopback(one))
      : []
    return withServicePorts(snapshot, [...relayed, ...onLoopback])
  }

  #loopback(servicePort: ServicePort): readonly ServicePort[] {
    const known = this.#onLoopback.get(servicePort)
    if (known !== undefined) return [known]
    const vips = servicePort.vips.flatMap(vip => loopbackVip(vip, servicePort.family))
    if (vips.length === 0 || servicePort.protocol === 'SCTP') return []
    // As kube-proxy 1.37 (localnodeportproxy): with externalTrafficPolicy Local this node's endpoints.
    const { external } = servicePort
    const made = {
      ...servicePort,
      key: loopbackKey(servicePort),
      vips,
      externalFromNode: external,
    }
    this.#onLoopback.set(servicePort, made)
    return [made]
  }
}

const onLoopback = ' on loopback'

/** `ServicePort.key` of what the relay serves of a ServicePort on loopback. */
export const loopbackKey = ({ key }: Pick<ServicePort, 'key'>): string =>
  `${key}${onLoopback}`

/** Whether this is the key, or the listener's id, of what is served on loopback. */
export const isOnLoopback = (key: string): boolean => key.endsWith(onLoopback)

const loopback: Readonly<Record<IpFamily, string>> = { IPv4: '127.0.0.1', IPv6: '::1' }

const loopbackVip = ({ kind, port }: Vip, family: IpFamily): readonly Vip[] =>
  kind === 'NodePort' ? [{ kind, address: loopback[family], port }] : []

/** Costs next to nothing where no Service asks for the relay. */
const unrelayed = (snapshot: Snapshot): Snapshot => {
  const relayed = listOfServicePorts(snapshot).filter(one => one.relayed)
  if (relayed.length === 0) return snapshot
  const gone = new Map(relayed.map(({ key }) => [key, undefined]))
  return { ...snapshot, servicePorts: sorted(snapshot.servicePorts).with(gone) }
}

const sorted = (servicePorts: Snapshot['servicePorts']): SortedMap<ServicePort> =>
  servicePorts instanceof SortedMap
    ? servicePorts
    : SortedMap.empty<ServicePort>().with(servicePorts)

const withServicePorts = (
  snapshot: Snapshot,
  list: readonly ServicePort[],
): Snapshot => ({
  ...snapshot,
  servicePorts: sorted(new Map(list.map(one => [one.key, one]))),
})

export const withoutServicePorts = (snapshot: Snapshot): Snapshot =>
  withServicePorts(snapshot, [])

export const isEmpty = (snapshots: readonly Snapshot[]): boolean =>
  snapshots.every(({ servicePorts }) => servicePorts.size === 0)

/** `wanted`, and those of `before` that are not in it but in `now`, as they are there. */
export const withLeaving = (
  wanted: readonly Snapshot[],
  before: readonly Snapshot[],
  now: readonly Snapshot[],
): readonly Snapshot[] => {
  const leaving = wanted.map((one, i) =>
    [...(before[i]?.servicePorts.keys() ?? [])].flatMap(key => {
      const still = now[i]?.servicePorts.get(key)
      return still === undefined || one.servicePorts.has(key) ? [] : [still]
    }),
  )
  if (leaving.every(({ length }) => length === 0)) return wanted
  return wanted.map((one, i) =>
    withServicePorts(one, [...one.servicePorts.values(), ...(leaving[i] ?? [])]),
  )
}
