import { canonicalIp } from '../../util/ip.ts'
import type { RunTool } from '../run-tool.ts'
import {
  jsonArray,
  type Kind,
  type Leftover,
  member,
  nothing,
  type Stay,
} from './clean-up.ts'
import { proxyAddressOf } from '../proxy-address.ts'
import {
  type AddressKind,
  ipv4Routes,
  ipv6OnLoopback,
  ipv6Routes,
} from '../host-addresses/linux.ts'
import { listOf, runIpBatch } from '../host-addresses/ip-tool.ts'

export interface Device {
  readonly name: string
  readonly addresses: readonly Address[]
}

export interface Address {
  /** Canonical. */
  readonly address: string
  readonly prefix: number
  /** As Usher marks those it puts on lo. */
  readonly hasMetric: boolean
}

/** The host's devices with their addresses. Rejects with ToolError. */
export const listDevices = async (run: RunTool): Promise<readonly Device[]> =>
  jsonArray(await run('ip', ['-j', 'address', 'show'])).flatMap(device => {
    const name = member(device, 'ifname')
    return typeof name === 'string' ? [{ name, addresses: addressesOf(device) }] : []
  })

const addressesOf = (device: unknown): readonly Address[] => {
  const list = member(device, 'addr_info')
  return (Array.isArray(list) ? list : []).flatMap((info: unknown) => {
    const address = canonicalIp(String(member(info, 'local')))
    return address === undefined
      ? []
      : [
          {
            address,
            prefix: Number(member(info, 'prefixlen')),
            hasMetric: member(info, 'metric') !== undefined,
          },
        ]
  })
}

/** The addresses on one device; none when there is no such device. */
export const addressesOn = (
  devices: readonly Device[],
  name: string,
): ReadonlySet<string> =>
  new Set(
    devices
      .filter(device => device.name === name)
      .flatMap(({ addresses }) => addresses.map(({ address }) => address)),
  )

/** Of kube-proxy's ipvs mode; its addresses go with it. */
export const ipvsDevice = 'kube-ipvs0'
/** What a probe of the ipvs mode leaves when it is killed. */
const ofProbe = /^usher-p[\da-f]{8}$/
/** Of captures. */
export const captureDevice = 'usher0'

/**
 * The devices `wanted`, and with that of captures Usher's IPv6 proxy address where it is
 * without Usher's mark.
 */
export const devicesKind = (
  run: RunTool,
  wanted: readonly string[] = [ipvsDevice, captureDevice],
): Kind => ({
  name: 'devices and addresses',
  find: async () => {
    const ofCaptures = wanted.includes(captureDevice)
    const devices = await listDevices(run)
    const leftovers = devices.flatMap(device =>
      wanted.includes(device.name) || ofProbe.test(device.name)
        ? [deviceLeftover(run, device)]
        : device.addresses
            .filter(
              ({ address, hasMetric }) =>
                ofCaptures && address === proxyAddressOf.IPv6 && !hasMetric,
            )
            .map(address => addressLeftover(run, device.name, address)),
    )
    return { leftovers, stays: [] }
  },
})

const deviceLeftover = (run: RunTool, { name, addresses }: Device): Leftover => ({
  what: [`device ${name} (with ${addresses.length} addresses)`],
  remove: async () => {
    await run('ip', ['link', 'delete', 'dev', name])
    return []
  },
})

const addressLeftover = (
  run: RunTool,
  device: string,
  { address, prefix }: Address,
): Leftover => {
  const text = `${address}/${prefix}`
  return {
    what: [`address ${text} on ${device}`],
    remove: async () => {
      await run('ip', ['-6', 'address', 'delete', text, 'dev', device])
      return []
    },
  }
}

const routeLine = (cidr: string): string => `route local ${cidr} dev lo`
const addressLine = (cidr: string): string => `address ${cidr} on lo`

/** Routes and addresses that bear Usher's mark, by which it made them this host's own. */
export const markedAddressKinds = (run: RunTool): readonly Kind[] => [
  markedKind(run, 'local IPv4 routes', routeLine, ipv4Routes),
  markedKind(run, 'local IPv6 routes', routeLine, ipv6Routes),
  markedKind(run, 'IPv6 addresses', addressLine, ipv6OnLoopback),
]

const markedKind = (
  run: RunTool,
  name: string,
  lineOf: (cidr: string) => string,
  kind: AddressKind,
): Kind => ({
  name,
  find: async () => {
    const lines = (await listOf(run, kind.list)).split('\n')
    const cidrs = lines.flatMap(line => kind.marked(line) ?? [])
    if (cidrs.length === 0) return nothing
    const remove = async () => {
      // The youngest first: the kernel's list begins with them.
      const order = cidrs.toReversed()
      const errors = await runIpBatch(run, order.map(kind.remove))
      return Array.from(errors, ([index, reason]): Stay => ({
        what: lineOf(order[index] ?? ''),
        reason,
      }))
    }
    return { leftovers: [{ what: cidrs.map(lineOf), remove }], stays: [] }
  },
})
