import type { IpFamily } from '../util/ip.ts'
import type { FlowVip } from './conntrack.ts'
import { servicesTableName, tableOf } from './nft/tables.ts'
import { type RunTool, ToolError } from './run-tool.ts'
import { hasTable, installedBackends } from './xtables/backend.ts'
import { shown } from './xtables/table-now.ts'

/**
 * VIPs of UDP to which rules that are there lead: those of any mode's earlier process, kube-proxy's
 * too. They tell whose a flow is when its Service went while nobody ran. Reads as little as the
 * tools can. ipvs ends by itself what goes to a server that is gone (expire_nodest_conn). What can't
 * be read is left out: the modes themselves say what a tool can't do here.
 */
export const udpVipsLeft = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly FlowVip[]> => {
  const reads = [ofIptables, ofNftables].map(read => orNone(read(run, family)))
  const text = (await Promise.all(reads)).join('\n')
  return patterns.flatMap(pattern =>
    Array.from(text.matchAll(pattern), ({ groups: { address, port } = {} }) => {
      return { family, protocol: 'UDP', address, port: Number(port) }
    }),
  )
}

/** Rules of iptables, and elements of nftables. What has no address is a node port. */
const patterns = [
  /^-A KUBE-SERVICES -d (?<address>[\da-f.:]+)\/\d+ -p udp .*--dport (?<port>\d+) -j/gm,
  /^-A KUBE-NODEPORTS .*?-p udp .*--dport (?<port>\d+) -j/gm,
  /(?:(?<address>[\da-f.:]+) \. )?(?:udp|17) \. (?<port>\d+) : goto/g,
]

/** What is not there is refused, in other words by each version of the tools. */
const orNone = (text: Promise<string>): Promise<string> =>
  text.catch((error: unknown) => {
    if (error instanceof ToolError) return ''
    throw error
  })

const ofIptables = async (run: RunTool, family: IpFamily): Promise<string> => {
  const chains = ['KUBE-SERVICES', 'KUBE-NODEPORTS']
  const texts = (await installedBackends(run, family)).map(async backend =>
    (await hasTable(backend, 'nat')) ? orNone(shown(backend, 'nat', chains)) : '',
  )
  return (await Promise.all(texts)).join('\n')
}

/** kube-proxy's have the same names. nft 1.0.6 finds only the last of several in one run. */
const ofNftables = async (run: RunTool, family: IpFamily): Promise<string> => {
  const maps = ['service-ips', 'from-node-service-ips']
  const nodePorts = ['service-nodeports', 'from-node-nodeports']
  const texts = [servicesTableName, 'kube-proxy'].flatMap(table =>
    [...maps, ...nodePorts].map(map =>
      orNone(run('nft', `list map ${tableOf(family, table)} ${map}`.split(' '))),
    ),
  )
  return (await Promise.all(texts)).join('\n')
}
