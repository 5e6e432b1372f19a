/**
 * Loopback addresses of this process: no other process listens there, so that all can be
 * on ports that are known beforehand. Below those that the system gives out by itself.
 */
const own = (group: number): string =>
  `127.${group}.${(process.pid >> 8) & 255}.${process.pid & 255}`

/** How many Services there are at most. */
export const vipCount = 24

export const clusterIP = (vip: number): string => own(1 + vip)
/** Of a family that this host has no address of: served on a proxy port. */
export const clusterIPv6 = (vip: number): string => `fd00:96::${vip + 1}`
export const externalIP = (vip: number): string => own(31 + vip)
export const balancerIP = (vip: number): string => own(61 + vip)

/** Where there are servers, TCP and UDP on each of both ports. */
export const backendAddresses: readonly string[] = Array.from({ length: 8 }, (_, i) =>
  own(200 + i),
)
export const backendPorts = { main: 7180, admin: 7181 } as const

/** What clients dial. */
export const servicePorts = { main: 7080, admin: 7081, dns: 7053 } as const
