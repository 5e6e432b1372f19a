import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { runTool } from '../run-tool.ts'
import { devicesKind } from './devices.ts'
import { ipsetsKind } from './ipsets.ts'
import { iptablesKind } from './iptables.ts'
import { ipvsKind } from './ipvs.ts'
import type { Kind } from './leftover.ts'
import { markedAddressKinds } from './marked-addresses.ts'
import { nftablesKind } from './nftables.ts'

/**
 * All that Usher and the modes of kube-proxy leave on this host, in the order in which it
 * goes: first what leads packets somewhere, then what it leads them to; virtual servers
 * before the sets and the device that say whose they are; sets after the rules using them.
 */
export const hostKinds = (): readonly Kind[] => [
  nftablesKind(runTool),
  iptablesKind(runTool, 'iptables', 'nft'),
  iptablesKind(runTool, 'iptables', 'legacy'),
  iptablesKind(runTool, 'ip6tables', 'nft'),
  iptablesKind(runTool, 'ip6tables', 'legacy'),
  ipvsKind({ run: runTool, read: readIfThere }),
  ipsetsKind({ run: runTool, sleep: ms => sleep(ms) }),
  ...markedAddressKinds(runTool),
  devicesKind(runTool),
]

const readIfThere = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
