import { canonicalIp } from '../../util/ip.ts'
import { proxyAddressOf } from '../../capture/proxy-address.ts'
import type { RunTool } from '../run-tool.ts'
import { jsonArray, type Kind, type Leftover, member } from './leftover.ts'

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

/** Of kube-proxy's ipvs mode, and Usher's own; their addresses go with them. */
const ownDevices: ReadonlySet<string> = new Set(['kube-ipvs0', 'usher0'])

/** Devices, and Usher's IPv6 proxy address where it is without Usher's mark. */
export const devicesKind = (run: RunTool): Kind => ({
  name: 'devices and addresses',
  find: async () => {
    const devices = await listDevices(run)
    const leftovers = devices.flatMap(device =>
      ownDevices.has(device.name)
        ? [deviceLeftover(run, device)]
        : device.addresses
            .filter(
              ({ address, hasMetric }) => address === proxyAddressOf.IPv6 && !hasMetric,
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
