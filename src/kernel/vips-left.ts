import { readIfThere } from '../util/read-text.ts'
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
  for (const read of [ofIptables, ofNftables, ofIpvs])
    await read(run, family, add).catch((error: unknown) => {
      if (!(error instanceof ToolError)) throw error
      // What is not there is refused, in other words by each version.
      if (error.failure !== 'missing' && error.failure !== 'failed') why ||= error.message
    })
  failed(why)
  return [...found.values()]
}

type Add = (address: string | undefined, port: number) => void

const ofIptables = async (run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  for (const backend of await installedBackends(run, family)) {
    if (!(await mayHaveRules(run, backend, family))) continue
    const text = await showChains(backend, 'nat', ['KUBE-SERVICES', 'KUBE-NODEPORTS'])
    for (const [, chain, to, port] of text.matchAll(
      /^-A KUBE-(SERVICES|NODEPORTS)(?: -d ([\da-f.:]+)\/\d+)? -p udp .*--dport (\d+) -j/gm,
    ))
      if (chain === 'NODEPORTS' || to)
        add(chain === 'NODEPORTS' ? undefined : to, Number(port))
  }
}

/** Maps of Usher's table, and those of kube-proxy's that have the same names. */
const maps = {
  [servicesTableName]: [
    'service-ips',
    'service-nodeports',
    'from-node-service-ips',
    'from-node-nodeports',
  ],
  'kube-proxy': ['service-ips', 'service-nodeports'],
}

const ofNftables = async (run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  for (const [name, each] of Object.entries(maps)) {
    const input = each.map(map => `list map ${tableOf(family, name)} ${map}\n`).join('')
    const text = await run('nft', ['-f', '-'], { input })
    for (const [, to, port] of text.matchAll(
      /(?:([\da-f.:]+) \. )?(?:udp|17) \. (\d+) : goto/g,
    ))
      add(to, Number(port))
  }
}

const ofIpvs = async (_run: RunTool, family: IpFamily, add: Add): Promise<void> => {
  const servers = await readLoads((await readIfThere('/proc/net/ip_vs')) ?? '')
  for (const id of servers.keys())
    if (isUdp(id) && familyOf(addressOf(id)) === family) add(addressOf(id), portOf(id))
}
