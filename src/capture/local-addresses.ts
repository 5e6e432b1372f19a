import { networkInterfaces } from 'node:os'
import { parseCidr } from '../util/cidr.ts'
import type { Protocol } from '../model/service.ts'
import type { Clock } from '../util/clock.ts'
import {
  familyOf,
  ipFamilies,
  type IpFamily,
  isGroup,
  isLoopback,
  isWildcard,
} from '../util/ip.ts'
import { isUnix } from '../util/unix-address.ts'
import type { ServicePort } from '../model/snapshot.ts'
import { forEachYielding } from '../util/list-diff.ts'
import { captureDevice, ipvsDevice } from '../kernel/cleanup/devices.ts'
import { proxyAddressOf } from '../kernel/proxy-address.ts'
import { tryToBind } from './try-port.ts'

/** An answer is taken for true for so long. */
const rememberMs = 30_000

/**
 * Which addresses are this host's own. Found by binding a socket to them: the list of
 * interfaces has neither the rest of 127.0.0.0/8 nor a `local` route to a whole range
 * of Service addresses.
 */
export class LocalAddresses {
  readonly #clock: Pick<Clock, 'now'>
  readonly #canBind: (address: string) => Promise<boolean>
  readonly #known = new Map<string, boolean>()
  /** The answers of the time before, for what can't be asked again. */
  #earlier: ReadonlyMap<string, boolean> = new Map()
  #until = -Infinity
  #era = 0

  constructor(
    clock: Pick<Clock, 'now'>,
    canBind: (address: string) => Promise<boolean> = isUsable,
  ) {
    this.#clock = clock
    this.#canBind = canBind
  }

  /** Another number than before when the answers of before are too old. */
  get era(): number {
    const now = this.#clock.now()
    if (now >= this.#until) {
      // All at once, so that a caller who asks for all of them need not look at each.
      this.#earlier = new Map(this.#known)
      this.#known.clear()
      this.#until = now + rememberMs
      this.#era += 1
    }
    return this.#era
  }

  async has(address: string): Promise<boolean> {
    void this.era
    const known = this.#known.get(address)
    if (known !== undefined) return known
    const local = await this.#probe(address, this.#earlier.get(address))
    this.#known.set(address, local)
    return local
  }

  /**
   * These, or all, have become this host's own or ceased to be: they are asked about anew.
   * Makes another `era` when something was answered already.
   */
  forget(addresses: Iterable<string> | 'all'): void {
    let isKnown = false
    for (const address of addresses === 'all' ? [...this.#known.keys()] : addresses) {
      isKnown = this.#known.delete(address) || isKnown
    }
    if (isKnown) this.#era += 1
  }

  /**
   * A probe that fails for want of a descriptor says nothing: what held before goes on,
   * lest a listener leave its VIP because of it. Rejects when nothing is known.
   */
  async #probe(address: string, before: boolean | undefined): Promise<boolean> {
    try {
      return await this.#canBind(address)
    } catch (error) {
      if (before !== undefined) return before
      throw new Error(`can't tell whether ${address} is an address of this host`, {
        cause: error,
      })
    }
  }
}

/** Linux lets it bind to groups and broadcast addresses too, where no connection can ever arrive. */
const isUsable = async (address: string): Promise<boolean> =>
  isUnix(address) ||
  ((await tryToBind('UDP', [address], 0)) !== undefined &&
    !isGroup(address) &&
    !isBroadcast(address))

/**
 * Whether it is the last of an interface's IPv4 addresses, which stands for all of them. A
 * link of two addresses, or of one, has none (RFC 3021).
 */
const isBroadcast = (address: string): boolean => {
  const [wanted] = parseCidr(`${address}/32`)?.words ?? []
  if (wanted === undefined || familyOf(address) !== 'IPv4') return false
  return Object.values(networkInterfaces()).some(infos =>
    infos?.some(({ family, cidr }) => {
      const block = family === 'IPv4' ? parseCidr(cidr ?? '') : undefined
      if (block === undefined || block.prefixLength > 30) return false
      const [network = 0, mask = 0] = [block.words[0], block.masks[0]]
      return (network | ~mask) >>> 0 === wanted
    }),
  )
}

/**
 * The addresses of the host's interfaces in one family. IPv6 link-local ones are left out:
 * they mean something only together with an interface.
 */
export const interfaceAddresses = (family: IpFamily): string[] =>
  interfaceAddressesWhere(family, () => true)

/** Only those that `wanted` takes, which is given the interface too. */
const interfaceAddressesWhere = (
  family: IpFamily,
  wanted: (address: string, interfaceName: string) => boolean,
): string[] =>
  Object.entries(networkInterfaces()).flatMap(([name, infos = []]) =>
    infos
      .filter(info => info.family === family && !info.address.startsWith('fe80:'))
      .map(info => info.address)
      .filter(address => wanted(address, name)),
  )

/**
 * The addresses to bind for `address`. A UDP socket on a wildcard can't say from which of
 * the host's addresses a reply leaves (Node has no IP_PKTINFO), so there is one socket for
 * each address, none when the host has no address of that family; TCP needs no such thing.
 */
export const bindAddresses = (
  protocol: Protocol,
  address: string,
  ofInterfaces: (family: IpFamily) => string[] = interfaceAddresses,
): string[] => {
  const family = familyOf(address)
  if (protocol !== 'UDP' || family === undefined || !isWildcard(address)) return [address]
  // Two interfaces may have the same address (point-to-point links without their own).
  return [...new Set(ofInterfaces(family))]
}

/** Those of both families. */
export const ownAddresses = (): readonly string[] =>
  ipFamilies.flatMap(family => interfaceAddresses(family))

/** Whether an address is on an interface of this host, or loopback. Asks no socket. */
export const isOwnAddress = (address: string): boolean => {
  if (isLoopback(address)) return true
  const family = familyOf(address)
  return family !== undefined && interfaceAddresses(family).includes(address)
}

/** How many addresses are probed at the same time; each needs a descriptor. */
const probesAtOnce = 32

/** The VIPs of these ServicePorts that are addresses of this host. */
export const whichAreLocal = async (
  localAddresses: Pick<LocalAddresses, 'has'>,
  servicePorts: readonly ServicePort[],
): Promise<ReadonlySet<string>> => {
  const addresses = new Set<string>()
  for (const { vips } of servicePorts) {
    for (const { address } of vips) addresses.add(address)
  }
  const local = new Set<string>()
  await forEachYielding(batches(addresses, probesAtOnce), async batch => {
    await Promise.all(
      batch.map(async address => {
        if (await localAddresses.has(address)) local.add(address)
      }),
    )
  })
  return local
}

function* batches<T>(items: Iterable<T>, size: number): Iterable<readonly T[]> {
  let batch: T[] = []
  for (const item of items) {
    batch.push(item)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/**
 * The addresses of the host's interfaces without what modes and captures put on them:
 * `vips` are those that may be on `lo` for clients of Services. In an order that does not
 * change by itself.
 */
export const nodeAddresses = (
  family: IpFamily,
  vips: Pick<ReadonlySet<string>, 'has'> = new Set(),
): string[] => {
  const all = interfaceAddressesWhere(
    family,
    (address, name) =>
      name !== ipvsDevice &&
      name !== captureDevice &&
      address !== proxyAddressOf[family] &&
      (name !== 'lo' || isLoopback(address) || !vips.has(address)),
  )
  return [...new Set(all)].toSorted()
}
