import { setTimeout as sleep } from 'node:timers/promises'
import { type RunTool, ToolError, runTool } from '../run-tool.ts'
import { type RememberedSysctl, type Sysctls, hostSysctls } from '../sysctls.ts'
import { captureDevice, devicesKind, ipvsDevice, markedAddressKinds } from './devices.ts'
import { ipsetsKind, ipvsKind } from './ipvs.ts'
import { iptablesKind } from './iptables.ts'
import type { Kind, Leftover, Stay } from './clean-up.ts'
import { nftablesKind } from './nftables.ts'
import { readIfThere } from '../../util/read-text.ts'
import { ipFamilies } from '../../util/ip.ts'
import { forgetProxyFlows } from '../conntrack.ts'
import type { InUse } from './in-use.ts'

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
    ...ipFamilies.flatMap(family =>
      (['nft', 'legacy'] as const).map(mode =>
        iptablesKind(run, family, mode, chain, byOther),
      ),
    ),
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

/** Settings of the kernel's that are still as Usher has set them, but for those of `keeps`. */
export const sysctlsKind = (
  sysctls: Sysctls,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'sysctls',
  find: async () => {
    const all = await sysctls.remembered()
    const leftovers = all.filter(({ name }) => !keeps(name)).map(one => put(sysctls, one))
    return { leftovers, stays: [] }
  },
})

const put = (sysctls: Sysctls, sysctl: RememberedSysctl): Leftover => ({
  stage: 'leads',
  what: [`setting ${sysctl.name} = ${sysctl.set}, which goes back to ${sysctl.before}`],
  remove: async () => {
    try {
      await sysctls.putBack(sysctl)
    } catch (error) {
      const why = (error as Error).message
      throw new ToolError(`${sysctl.name} can't be written: ${why}`, 'failed', why)
    }
    return []
  },
})

/**
 * Flows to a userspace Usher that is gone. After the rules that make them: else a SYN that
 * comes again makes a new one. Before those that keep the proxy address silent: else it is
 * answered by a reset. No thing by itself, so that it is not listed.
 */
const proxyFlowsKind = (run: RunTool): Kind => ({
  name: 'flows to a userspace Usher',
  find: async () => ({
    leftovers: [{ what: [], stage: 'flows', remove: () => removeFlows(run) }],
    stays: [],
  }),
})

const removeFlows = async (run: RunTool): Promise<readonly Stay[]> => {
  for (const family of ipFamilies) await forgetProxyFlows(run, family)
  return []
}
