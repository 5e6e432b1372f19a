import { networkInterfaces } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunTool, ToolError, runTool } from '../run-tool.ts'
import { type RememberedSysctl, type Sysctls, hostSysctls } from '../sysctls.ts'
import { captureDevice, devicesKind, ipvsDevice, markedAddressKinds } from './devices.ts'
import { ipsetsKind, ipvsKind } from './ipvs.ts'
import { iptablesKind } from './iptables.ts'
import type { Kind, Leftover, Stay } from './clean-up.ts'
import { isProbeTable, listTables, servicesTableName, tableName } from '../nft/tables.ts'
import { readIfThere } from '../../util/read-text.ts'
import { systemClock } from '../../util/clock.ts'
import { ipFamilies } from '../../util/ip.ts'
import { ConntrackCleaner, type FlowVip, forgetProxyFlows } from '../conntrack.ts'
import { udpVipsLeft } from '../vips-left.ts'
import type { KeptObjects } from './kept-objects.ts'

/**
 * All that Usher and the modes of kube-proxy leave on this host, but for what is `kept`
 * (by default nothing is), in the order in which it goes: settings before the rules that
 * guard them (route_localnet, CVE-2020-8558); what leads packets somewhere, then what it
 * leads them to; virtual servers before the sets and the device that say whose they are;
 * sets after the rules using them. Whatever its place here, what has a stage goes by that.
 */
export const hostKinds = (
  kept: Partial<KeptObjects> = {},
  run: RunTool = runTool,
): readonly Kind[] => {
  const { chain, nftablesTable, ipvs = false, captures = false, byOther, sysctl } = kept
  const isAlone = Object.keys(kept).length === 0
  return [
    sysctlsKind(hostSysctls(), sysctl),
    nftablesKind(run, nftablesTable),
    ...ipFamilies.flatMap(family =>
      (['nft', 'legacy'] as const).map(mode =>
        iptablesKind(run, family, mode, chain, byOther),
      ),
    ),
    ...(captures ? [] : [flowsKind(run, isAlone ? udpVipsLeft : async () => [])]),
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
      const reason = (error as Error).message
      throw new ToolError(`${sysctl.name} can't be written: ${reason}`, 'failed', reason)
    }
    return []
  },
})

/**
 * Flows to a userspace Usher that is gone, and where no other proxy runs (`vips`) those that rules
 * of kernel modes have led to endpoints: with any other rule of NAT they would go on. After the rules
 * that make them: else a SYN that comes again makes a new one. Before those that keep the proxy
 * address silent: else it is answered by a reset. No thing by itself, so that it is not listed.
 */
const flowsKind = (run: RunTool, vips: typeof udpVipsLeft): Kind => ({
  name: 'flows',
  find: async () => {
    const left = await Promise.all(ipFamilies.map(family => vips(run, family)))
    const remove = () => removeFlows(run, left.flat())
    return { leftovers: [{ what: [], stage: 'flows', remove }], stays: [] }
  },
})

const removeFlows = async (
  run: RunTool,
  vips: readonly FlowVip[],
): Promise<readonly Stay[]> => {
  for (const family of ipFamilies) await forgetProxyFlows(run, family)
  const cleaner = new ConntrackCleaner({
    clock: systemClock,
    proxyAddress: () => undefined,
    ownAddresses: () =>
      Object.values(networkInterfaces()).flatMap(
        all => all?.map(one => one.address) ?? [],
      ),
    nodePortCidrs: () => undefined,
    failed: () => {},
  })
  // What there was no time for in one turn: here nobody waits for the next.
  while ((await cleaner.forgetFlows(vips)) > 0 && cleaner.problem !== '');
  const reason = cleaner.problem
  return reason === '' ? [] : [{ what: 'flows of UDP Services', reason }]
}

/** As in `ip usher`, and the names of its chains. */
type Table = readonly [name: string, chains: readonly string[]]

const nameOf = ([name]: Table): string => name.slice(name.indexOf(' ') + 1)

/**
 * Tables of their own: Usher's, those Usher tries its hand at, and those of kube-proxy's
 * nftables mode (KEP-3866), which are in the families ip and ip6.
 */
const isOwn = (name: string): boolean =>
  [tableName, servicesTableName, 'kube-proxy'].includes(name) || isProbeTable(name)

/** `keeps`: tables by name that are no leftovers, because what runs has them. */
const nftablesKind = (
  run: RunTool,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'nftables tables',
  find: async () => {
    const [four, six] = [await listTables(run, 'IPv4'), await listTables(run, 'IPv6')]
    const all = [...four, ...six].filter(table => isOwn(nameOf(table)))
    const tables = all.filter(table => !keeps(nameOf(table)))
    const leads = tables.filter(keepsSilence).map(table => emptied(run, table))
    return { leftovers: [...leads, ...tables.map(one => leftover(run, one))], stays: [] }
  },
})

/**
 * The table of captures does. Those of the modes go at once: what refuses ClusterIPs that are led
 * nowhere is in them, too, and would refuse clients of the mode that serves from now on.
 */
const keepsSilence = (table: Table): boolean => nameOf(table) === tableName

/**
 * The chains that lead packets elsewhere are emptied first: a table whose other chains keep
 * an address silent goes when nothing is led there any more.
 */
const emptied = (run: RunTool, [name, chains]: Table): Leftover => ({
  what: [],
  stage: 'leads',
  remove: async () => {
    const leading = chains.filter(chain => chain.startsWith('nat-'))
    const input = leading.map(chain => `flush chain ${name} ${chain}\n`).join('')
    if (input !== '') await run('nft', ['-f', '-'], { input })
    return []
  },
})

const leftover = (run: RunTool, table: Table): Leftover => ({
  ...(!keepsSilence(table) && { stage: 'leads' }),
  what: [`nftables table ${table[0]}`],
  remove: async () => {
    await run('nft', ['delete', 'table', ...table[0].split(' ')])
    return []
  },
})
