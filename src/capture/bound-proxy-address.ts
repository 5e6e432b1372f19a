import { familyOf, type IpFamily, isWildcard, wildcardOf } from '../util/ip.ts'
import type { ProxyAddress } from './listen.ts'

/**
 * Proxy ports on the address of --bind-address. A wildcard stands for the wildcard of
 * either family.
 */
export const boundProxyAddress =
  (bindAddress: string) =>
  (family: IpFamily): ProxyAddress => {
    if (isWildcard(bindAddress)) return { address: wildcardOf(family) }
    if (familyOf(bindAddress) === family) return { address: bindAddress }
    return { reason: `--bind-address ${bindAddress} is not an ${family} address` }
  }
