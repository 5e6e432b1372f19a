import type { IpFamily } from '../util/ip.ts'

/**
 * Where proxy ports are that rules lead to: addresses of Usher's own, which nothing else
 * uses and no route leads to from elsewhere. IPv4 link-local (RFC 3927), clear of what
 * clouds and network plugins take of it; IPv6 unique local (RFC 4193).
 */
export const proxyAddressOf: Readonly<Record<IpFamily, string>> = {
  IPv4: '169.254.77.88',
  IPv6: 'fd75:7368:6572::1',
}

/** The same as CIDRs of one address each. */
export const proxyCidrOf: Readonly<Record<IpFamily, string>> = {
  IPv4: `${proxyAddressOf.IPv4}/32`,
  IPv6: `${proxyAddressOf.IPv6}/128`,
}
