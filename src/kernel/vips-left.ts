import { readIfThere } from '../util/read-text.ts'
import { errorOf } from '../util/usher-error.ts'
import { familyOf, type IpFamily } from '../util/ip.ts'
import type { FlowVip } from './conntrack-plan.ts'
import { readLoads } from './ipvs/proc-ip-vs.ts'
import { addressOf, isUdp, portOf } from './ipvs/server-id.ts'
import { servicesTableName, tableOf } from './nft/tables.ts'
import { type RunTool, ToolError } from './run-tool.ts'
import { installedBackends, mayHaveRules, showChains } from './xtables/backend.ts'

export const readingLeft = 'reading which UDP VIPs an earlier process had'

/**
 * VIPs of UDP to which rules that are there lead: those of any mode's earlier process, kube-proxy's
 * too. They tell whose a flow is when its Service went while nobody ran. Reads as little as the tools
 * can. Never rejects: what can't be read is left out, and told.
 */
export const udpVipsLeft = async (
  run: RunTool,
  family: IpFamily,
  failed: (why: string) => void,
): Promise<readonly FlowVip[]> => {
  const found = new Map<string, FlowVip>()
  const add = (address: string | undefined, port: number): void =>
    void found.set(`${address} ${port}`, { family, protocol: 'UDP', address, port })
  let why = ''
  await Promise.all(
    [ofIptables, ofNftables, ofIpvs].map(read =>
      read(run, family, add)
        .catch(noneThere)
        .catch((error: unknown) => void (why ||= errorOf(error).message)),
    ),
  )
  failed(why)
  return [...found.values()]
}

/** What is not there is refused, in other words by each version of the tools. */
const noneThere = (error: unknown): string => {
  const isThat =
    error instanceof ToolError &&
    (error.failure === 'missing' || error.failure === 'failed')
  if (!isThat) throw error
  return ''
}

type Add = (address: string | undefined, port: number) => void

const ofIptables = async (run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  for (const backend of await installedBackends(run, family)) {
    if (!(await mayHaveRules(run, backend, family))) continue
    const chains = ['KUBE-SERVICES', 'KUBE-NODEPORTS']
    const text = await showChains(backend, 'nat', chains).catch(noneThere)
    for (const [, chain, to, port] of text.matchAll(
      /^-A KUBE-(SERVICES|NODEPORTS)(?: -d ([\da-f.:]+)\/\d+)? -p udp .*--dport (\d+) -j/gm,
    ))
      if (chain === 'NODEPORTS' || to)
        add(chain === 'NODEPORTS' ? undefined : to, Number(port))
  }
}

/** Maps of Usher's table, and those of kube-proxy's that have the same names. */
const maps: readonly (readonly [table: string, map: string])[] = [
  ...[
    'service-ips',
    'service-nodeports',
    'from-node-service-ips',
    'from-node-nodeports',
  ].map(map => [servicesTableName, map] as const),
  ...['service-ips', 'service-nodeports'].map(map => ['kube-proxy', map] as const),
]

/** nft 1.0.6 finds only the last one of several that are listed by one run. */
const ofNftables = async (run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  const texts = maps.map(([table, map]) => {
    const args = ['list', 'map', ...tableOf(family, table).split(' '), map]
    return run('nft', args).catch(noneThere)
  })
  for (const text of await Promise.all(texts))
    for (const [, to, port] of text.matchAll(
      /(?:([\da-f.:]+) \. )?(?:udp|17) \. (\d+) : goto/g,
    ))
      add(to, Number(port))
}

const ofIpvs = async (_run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  const servers = await readLoads((await readIfThere('/proc/net/ip_vs')) ?? '')
  for (const id of servers.keys())
    if (isUdp(id) && familyOf(addressOf(id)) === family) add(addressOf(id), portOf(id))
}
