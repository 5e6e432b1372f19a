import type { IpFamily } from '../../util/ip.ts'
import { familyOf } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { captureDevice, listDevices } from '../cleanup/devices.ts'
import { runIpBatch } from '../host-addresses/ip-tool.ts'
import { type RunTool, ToolError } from '../run-tool.ts'

/**
 * Has the VIPs, so that packets for them are taken in and ipvs sees them. It stays down
 * and answers no ARP: no neighbour is to find a VIP by it.
 */
export const deviceName = 'kube-ipvs0'

export interface DeviceAddresses {
  /** On kube-ipvs0. */
  readonly own: Set<string>
  /** On all others, loopback too; without what a capture of Usher's put there for a while. */
  readonly elsewhere: ReadonlySet<string>
}

/** Makes the device where there is none. Rejects with ToolError. */
export const ensureDevice = async (run: RunTool, isThere: boolean): Promise<void> => {
  if (!isThere)
    try {
      await run('ip', ['link', 'add', deviceName, 'type', 'dummy'])
    } catch (error) {
      // The other family's proxier was there first.
      if (!(error instanceof ToolError) || !/File exists/.test(error.stderr)) throw error
    }
  await run('ip', ['link', 'set', 'dev', deviceName, 'arp', 'off'])
}

/** Addresses of one family. Rejects with ToolError. */
export const readAddresses = async (
  run: RunTool,
  family: IpFamily,
): Promise<DeviceAddresses> => {
  const [own, elsewhere] = [new Set<string>(), new Set<string>()]
  for (const { name, addresses } of await listDevices(run))
    await forEachYielding(addresses, ({ address, prefix, hasMetric }) => {
      if (familyOf(address) !== family) return
      // Not an address of its own that a device has which is up.
      if (name === deviceName && prefix >= 32 && !address.startsWith('fe80:'))
        own.add(address)
      else if (
        ![deviceName, captureDevice].includes(name) &&
        !(name === 'lo' && hasMetric)
      )
        elsewhere.add(address)
    })
  return { own, elsewhere }
}

/**
 * Not to be taken as the source of what is sent elsewhere, masqueraded or not: IPv6 leaves
 * addresses alone that are not preferred (RFC 6724), IPv4 those of a smaller scope.
 */
const addressWords = {
  IPv4: [32, 'scope host'],
  IPv6: [128, 'nodad preferred_lft 0'],
} as const

/** A line for `ip -batch`. */
export const addressAddition = (
  family: IpFamily,
  address: string,
  device: string,
): string => {
  const [length, flags] = addressWords[family]
  return `address add ${address}/${length} dev ${device} ${flags}`
}

/** The difference, which `known` has from then on. */
export const addressChanges = async (
  family: IpFamily,
  touched: Iterable<string>,
  wanted: (address: string) => boolean,
  known: Set<string>,
): Promise<readonly string[]> => {
  const [added, removed]: [string[], string[]] = [[], []]
  const [length] = addressWords[family]
  await forEachYielding(touched, address => {
    if (wanted(address) === known.has(address)) return
    if (known.delete(address))
      removed.push(`address delete ${address}/${length} dev ${deviceName}`)
    else {
      known.add(address)
      added.push(addressAddition(family, address, deviceName))
    }
  })
  return [...added, ...removed]
}

/** What `ip` says when another program has done it already. */
const done = /File exists|already assigned|Cannot assign requested address/

/** Rejects with ToolError when a line fails for which it is not done already. */
export const changeAddresses = async (
  run: RunTool,
  lines: readonly string[],
): Promise<void> => {
  if (lines.length === 0) return
  for (const [index, why] of await runIpBatch(run, lines))
    if (!done.test(why))
      throw new ToolError(`ip ${lines[index] ?? ''}: ${why}`, 'failed', why)
}
