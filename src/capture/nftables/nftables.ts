import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { RuleTable, RuleTables, TableSettings } from '../rule-table.ts'
import { localPacketProbe, type PacketProbe } from '../../kernel/nft/packet-probe.ts'
import { probeNftables } from './probe.ts'
import { Monitor, type SpawnMonitor, spawnMonitor } from '../../kernel/nft/monitor.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { VipRule } from '../vip-rule.ts'
import { holdFound, removeTables } from './leftovers.ts'
import { TableWriter } from './table-writer.ts'
import { tableName, tableOf } from '../../kernel/nft/tables.ts'
import { watchTable } from '../../kernel/nft/table-watch.ts'

export interface NftablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default a child process in this process's network namespace. */
  readonly spawnMonitor?: SpawnMonitor
  /** By default sockets in this process's network namespace. */
  readonly packetProbe?: PacketProbe
  /**
   * When Usher can't tell at once whether its rules were changed, because
   * `nft monitor` or a look at the table failed; it goes on trying.
   */
  readonly onBlind?: (reason: string) => void
  /** As in ChainSettings. */
  readonly natPriority?: number | undefined
}

/** Rules by `nft`, from nftables 1.0 on: a table `usher` in the families ip and ip6. */
export const nftablesTables = (deps: NftablesDeps): RuleTables => {
  const { run, clock, onBlind = () => {}, natPriority } = deps
  const monitor = new Monitor({
    clock,
    spawn: deps.spawnMonitor ?? spawnMonitor,
    table: tableName,
  })
  const packetProbe = deps.packetProbe ?? localPacketProbe(clock)
  return {
    name: 'nftables',
    admitsHealthChecks: false,
    probe: family => probeNftables(family, { run, clock, packetProbe }),
    table: family => new NftTable(family, { run, clock, monitor, onBlind, natPriority }),
  }
}

export interface NftTableDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  /** When Usher can't tell for now whether its rules are whole. */
  readonly onBlind: (reason: string) => void
  readonly natPriority: number | undefined
}

/** Usher's table of one family. */
class NftTable implements RuleTable {
  readonly #family: IpFamily
  readonly #deps: NftTableDeps
  readonly #writer: TableWriter
  #wanted = false
  #isHeld = false

  constructor(family: IpFamily, deps: NftTableDeps) {
    this.#family = family
    this.#deps = deps
    this.#writer = new TableWriter(family, tableOf(family, tableName), deps)
  }

  async replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    this.#wanted = true
    await this.#writer.replace(rules, { ...settings, isHeld: this.#isHeld })
  }

  async change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    await this.#writer.change(gone, come)
  }

  async hold(): Promise<void> {
    if (this.#writer.table.isPlaced) await this.#writer.hold(true)
    else await holdFound(this.#deps.run, this.#family)
    this.#isHeld = true
  }

  async release(): Promise<void> {
    await this.#writer.hold(false)
    this.#isHeld = false
  }

  async remove(): Promise<void> {
    this.#isHeld = false
    await removeTables(this.#deps.run, this.#family, this.#wanted)
    this.#wanted = false
  }

  watch(damaged: (what: string) => void): () => void {
    return watchTable(this.#writer.table, {
      ...this.#deps,
      wanted: () => this.#wanted,
      damaged,
    })
  }
}
