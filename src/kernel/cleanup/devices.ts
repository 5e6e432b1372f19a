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
