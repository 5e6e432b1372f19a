import type { Probe } from '../probe.ts'
import type { IpFamily } from '../../util/ip.ts'

/**
 * Makes addresses this host's own, so that sockets can be bound to them and packets for
 * them end here, and gives them back. Calls may overlap: each waits for the one before.
 */
export interface HostAddresses {
  /**
   * Makes exactly these this host's own: canonical CIDRs, `10.96.0.0/12`, `192.0.2.7/32`,
   * `fd00::7/128`. What the host has by itself is left alone, now and later. Runs no
   * command when nothing changed. Never rejects: gives what could not be set, or not be
   * given back, and why; those are tried again by calls 30 s later.
   */
  sync(wanted: readonly string[]): Promise<ReadonlyMap<string, string>>
  /**
   * Which another program has taken away since; the next `sync` puts them back. Also those
   * that the host had by itself, and has no more. Never rejects.
   */
  missing(): Promise<readonly string[]>
  /**
   * Calls `damaged` within 5 s after another program has taken one of them away, with what is
   * missing in a few words; the next `sync` puts it back. Until the returned function is
   * called.
   */
  watch(damaged: (what: string) => void): () => void
  /**
   * Gives back all that is Usher's, also what an earlier process left. Rejects (ToolError)
   * when something stayed.
   */
  remove(): Promise<void>
  /** Whether it works here, found out by really doing it. Never rejects. */
  probe(family: IpFamily): Promise<Probe>
}
