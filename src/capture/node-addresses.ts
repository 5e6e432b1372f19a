import { captureDevice, ipvsDevice } from '../kernel/cleanup/devices.ts'
import { type IpFamily, isLoopback } from '../util/ip.ts'
import { interfaceAddressesWhere } from './local-addresses.ts'
import { proxyAddressOf } from '../kernel/proxy-address.ts'

/**
 * The addresses of the host's interfaces without what modes and captures put on them:
 * `vips` are those that may be on `lo` for clients of Services. In an order that does not
 * change by itself.
 */
export const nodeAddresses = (
  family: IpFamily,
  vips: ReadonlySet<string> = new Set(),
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
