import { isDeepStrictEqual } from 'node:util'
import type { ServicePort } from '../../model/snapshot.ts'
import { type Cidr, cidrContains } from '../../util/cidr.ts'
import { isLoopback, isWildcard } from '../../util/ip.ts'
import { KeyedList } from '../../util/keyed-list.ts'
import { listDiff } from '../../util/list-diff.ts'
import { listenerId } from '../capture.ts'
import { forEachYielding } from '../../util/yielding.ts'

type AddressLists = readonly (readonly string[])[]

/**
 * The single addresses that the VIPs of ServicePorts need, beside the ranges that are the
 * host's anyway.
 */
export class WantedAddresses {
  #lists = new KeyedList<ServicePort, readonly string[]>(listenerId)
  #before: AddressLists = []
  #ranges = ''
  #addresses: ReadonlySet<string> = new Set()
  #refused: ReadonlyMap<string, string> = new Map()

  /** As of the last `take`. The same object while nothing changed. */
  get addresses(): ReadonlySet<string> {
    return this.#addresses
  }

  /** Those that must not be taken, each with why: they would be out of reach from here. */
  get refused(): ReadonlyMap<string, string> {
    return this.#refused
  }

  async take(
    servicePorts: readonly ServicePort[],
    ranges: readonly Cidr[],
    elsewhere: ReadonlyMap<string, string>,
  ): Promise<ReadonlySet<string>> {
    const text = ranges.map(range => range.text).join()
    const all = text !== this.#ranges
    const lists = await this.#lists.update(
      servicePorts,
      (servicePort, before) => {
        const now = addressesOf(servicePort, ranges)
        return before && isDeepStrictEqual(before, now) ? before : now
      },
      { all },
    )
    const { before, after } = listDiff(this.#before, lists)
    this.#before = lists
    this.#ranges = text
    const refused = await refusedAddresses(servicePorts, elsewhere)
    const isSame = isDeepStrictEqual(refused, this.#refused)
    if (before.length > 0 || after.length > 0 || !isSame)
      this.#addresses = new Set(lists.flat().filter(address => !refused.has(address)))
    this.#refused = refused
    return this.#addresses
  }
}

const addressesOf = ({ vips }: ServicePort, ranges: readonly Cidr[]): readonly string[] =>
  vips
    .map(({ address }) => address)
    .filter(
      address =>
        !isWildcard(address) &&
        !isLoopback(address) &&
        !ranges.some(range => cidrContains(range, address)),
    )

/**
 * Which external and load-balancer IPs are `elsewhere`, or the address of some endpoint: a pod's, or
 * that of a node with a pod of its network. Made this host's own, such an address could be
 * reached from here no more, by no client and at no port. A ClusterIP is no host's.
 */
const refusedAddresses = async (
  servicePorts: readonly ServicePort[],
  elsewhere: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> => {
  const external = new Set<string>()
  const internal = new Set<string>()
  await forEachYielding(servicePorts, ({ vips }) => {
    for (const { kind, address } of vips)
      if (kind === 'ClusterIP') internal.add(address)
      else if (kind === 'ExternalIP' || kind === 'LoadBalancerIP') external.add(address)
  })
  const found = new Map<string, string>()
  const refuse = (address: string, what: string) => {
    if (!external.has(address) || internal.has(address)) return
    const why = `it is ${what}, which would be out of reach; give the Service another`
    found.set(address, why)
  }
  // Most clusters have none, and then endpoints, which are many, are not looked at.
  if (external.size === 0) return found
  await forEachYielding(servicePorts, ({ endpoints }) => {
    for (const { address } of endpoints) refuse(address, 'the address of an endpoint')
  })
  for (const [address, what] of elsewhere) refuse(address, what)
  return found
}
