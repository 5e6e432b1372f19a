import type { IpvsOptions } from '../../src/kernel/ipvs/ipvs-deps.ts'

/** What the flags of ipvs mode amount to when none is given. */
export const plainIpvs: IpvsOptions = {
  scheduler: '',
  excludeCidrs: [],
  strictArp: false,
  tcpTimeoutMs: 0,
  tcpFinTimeoutMs: 0,
  udpTimeoutMs: 0,
}
