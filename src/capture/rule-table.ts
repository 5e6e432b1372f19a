import type { Probe } from '../kernel/probe.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Problem } from '../model/snapshot.ts'
import type { VipRule } from './vip-rule.ts'

/** What holds for all VIPs of a family. */
export interface TableSettings {
  /**
   * An address of this host and of Usher's own, on which all proxy ports are. Packets that
   * come there without having been sent to a VIP are dropped.
   */
  readonly proxyAddress: string
  /**
   * Canonical CIDRs; those of the host's addresses that are in one answer node ports.
   * Undefined: all of them, loopback too.
   */
  readonly nodePortCidrs: readonly string[] | undefined
  /** Canonical CIDRs of the pods that count as this node's clients. */
  readonly podCidrs: readonly string[]
  /** TCP ports on which load balancers ask for health; none unless `admitsHealthChecks`. */
  readonly healthCheckPorts: readonly number[]
}

/**
 * Usher's rules of one family in the kernel. Calls don't overlap. A call that rejects
 * (ToolError) has changed nothing, or is followed by `replace`.
 */
export interface RuleTable {
  /**
   * Makes Usher's rules exactly these, in one transaction: old rules (also those of an
   * earlier process) are in force until the new ones are. Leaves `hold` as it is.
   */
  replace(rules: readonly VipRule[], settings: TableSettings): Promise<void>
  /** After `replace`: takes rules out and puts others in. A key in both is a changed rule. */
  change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void>
  /**
   * From now on new connections to all VIPs wait in silence, as clients do when a packet
   * was lost: for the time until another process takes over. Open ones go on. Also by
   * rules that an earlier process has left; does nothing where there are none.
   */
  hold(): Promise<void>
  /** After `replace`: ends `hold`. */
  release(): Promise<void>
  /** Takes out everything that is Usher's own, also of an earlier process. */
  remove(): Promise<void>
  /** What of the host is in the way of knowing or writing them. */
  problems?(): readonly Problem[]
  /**
   * Calls `damaged` soon (within 5 s) after another program has changed Usher's rules, with
   * what is wrong in a few words; until the returned function is called.
   */
  watch(damaged: (what: string) => void): () => void
}

/** One way to write rules. */
export interface RuleTables {
  readonly name: 'nftables' | 'iptables'
  /**
   * Whether its rules can let health checks through other people's packet filters. An
   * nftables table can't: what another one drops is dropped.
   */
  readonly admitsHealthChecks: boolean
  /**
   * Whether it works here, found out by really doing it and leaving nothing behind.
   * `proxyAddress` need not be the host's yet. Never rejects.
   */
  probe(family: IpFamily): Promise<Probe>
  table(family: IpFamily): RuleTable
}
