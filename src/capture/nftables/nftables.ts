import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { RuleTables } from '../rule-table.ts'
import { Monitor, type SpawnMonitor, spawnMonitor } from './monitor.ts'
import { NftTable } from './nft-table.ts'
import { localPacketProbe, type PacketProbe } from './packet-probe.ts'
import { probeNftables } from './probe.ts'

export interface NftablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default a child process in this process's network namespace. */
  readonly spawnMonitor?: SpawnMonitor
  /** By default sockets in this process's network namespace. */
  readonly packetProbe?: PacketProbe
  /**
   * When Usher can't tell at once whether somebody has changed its rules, because
   * `nft monitor` or a look at the table failed; it goes on trying.
   */
  readonly onBlind?: (reason: string) => void
}

/** Rules by `nft`, from nftables 1.0 on: a table `usher` in the families ip and ip6. */
export const nftablesTables = (deps: NftablesDeps): RuleTables => {
  const { run, clock, onBlind = () => {} } = deps
  const monitor = new Monitor({ clock, spawn: deps.spawnMonitor ?? spawnMonitor })
  const packetProbe = deps.packetProbe ?? localPacketProbe(clock)
  return {
    name: 'nftables',
    admitsHealthChecks: false,
    probe: family => probeNftables(family, { run, clock, packetProbe }),
    table: family => new NftTable(family, { run, clock, monitor, onBlind }),
  }
}
