import { isDeepStrictEqual } from 'node:util'
import type { ServicePort } from '../../model/snapshot.ts'
import { type Cidr, cidrContains } from '../../util/cidr.ts'
import { isLoopback, isWildcard } from '../../util/ip.ts'
import { KeyedList } from '../../util/keyed-list.ts'
import { listDiff } from '../../util/list-diff.ts'
import { listenerId } from '../place-service-port.ts'
import { endpointAddresses } from './endpoint-addresses.ts'

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
  #refused: ReadonlySet<string> = new Set()

  /** As of the last `take`. The same object while nothing changed. */
  get addresses(): ReadonlySet<string> {
    return this.#addresses
  }

  /** Those that are an endpoint's, and are not to be had. */
  get refused(): ReadonlySet<string> {
    return this.#refused
  }

  async take(
    servicePorts: readonly ServicePort[],
    ranges: readonly Cidr[],
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
    const refused = await endpointAddresses(servicePorts)
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
