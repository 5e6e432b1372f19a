import type { KernelOptions } from '../../../src/mode/mode.ts'
import { plainIpvs } from '../../support/plain-ipvs.ts'

/** Options that leave the kernel's own settings as they are, in all but `over`. */
export const kernelOptions = (over: Partial<KernelOptions> = {}): KernelOptions => ({
  masqueradeAll: false,
  masqueradeBit: 14,
  nftables: {
    masqueradeAll: false,
    masqueradeBit: 14,
    localhostNodePorts: false,
    flowtableDevices: [],
  },
  localhostNodePorts: true,
  localPods: { by: 'cidrs' },
  conntrack: {
    maxPerCore: 0,
    min: 0,
    max: 0,
    tcpEstablishedMs: 0,
    tcpCloseWaitMs: 0,
    tcpBeLiberal: false,
    udpMs: 0,
    udpStreamMs: 0,
  },
  ipvs: plainIpvs,
  ...over,
})
