import { setTimeout as sleep } from 'node:timers/promises'
import { type RunTool, runTool } from '../run-tool.ts'
import { hostSysctls } from '../sysctls.ts'
import { captureDevice, devicesKind, ipvsDevice } from './devices.ts'
import { ipsetsKind } from './ipsets.ts'
import { iptablesKind } from './iptables.ts'
import { ipvsKind } from './ipvs.ts'
import type { InUse } from './in-use.ts'
import type { Kind } from './leftover.ts'
import { markedAddressKinds } from './marked-addresses.ts'
import { nftablesKind } from './nftables.ts'
import { proxyFlowsKind } from './proxy-flows.ts'
import { sysctlsKind } from './sysctls.ts'
import { readIfThere } from '../../util/read-text.ts'

/**
 * All that Usher and the modes of kube-proxy leave on this host, but for what is `inUse`
 * (by default nothing is), in the order in which it goes: settings before the rules that
 * guard them (route_localnet, CVE-2020-8558); what leads packets somewhere, then what it
 * leads them to; virtual servers before the sets and the device that say whose they are;
 * sets after the rules using them. Whatever its place here, what has a stage goes by that.
 */
export const hostKinds = (
  inUse: Partial<InUse> = {},
  run: RunTool = runTool,
): readonly Kind[] => {
  const { chain, nftablesTable, ipvs = false, captures = false, byOther, sysctl } = inUse
  return [
    sysctlsKind(hostSysctls(), sysctl),
    nftablesKind(run, nftablesTable),
    iptablesKind(run, 'iptables', 'nft', chain, byOther),
    iptablesKind(run, 'iptables', 'legacy', chain, byOther),
    iptablesKind(run, 'ip6tables', 'nft', chain, byOther),
    iptablesKind(run, 'ip6tables', 'legacy', chain, byOther),
    ...(captures ? [] : [proxyFlowsKind(run)]),
    ...(ipvs
      ? []
      : [
          ipvsKind({ run, read: readIfThere }),
          ipsetsKind({ run, sleep: ms => sleep(ms) }),
        ]),
    ...(captures ? [] : markedAddressKinds(run)),
    devicesKind(run, [
      ...(ipvs ? [] : [ipvsDevice]),
      ...(captures ? [] : [captureDevice]),
    ]),
  ]
}
