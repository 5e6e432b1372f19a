import { permissionAdvice } from '../kernel/permission-advice.ts'
import type { HostAddresses } from '../kernel/host-addresses/host-addresses.ts'
import { ToolError } from '../kernel/run-tool.ts'

export interface KeptAddressesDeps {
  readonly addresses: HostAddresses
  /** Canonical CIDRs. */
  readonly wanted: readonly string[]
  /** Another program took some away; '' for `error` when they are back. */
  readonly repaired: (what: string, error: string) => void
}

/** Addresses that are this host's own for as long as they are needed. */
export class KeptAddresses {
  readonly #deps: KeptAddressesDeps
  #endWatch: (() => void) | undefined

  constructor(deps: KeptAddressesDeps) {
    this.#deps = deps
  }

  /** Rejects when one of them can't be set. */
  async take(): Promise<void> {
    const { addresses } = this.#deps
    await this.#sync()
    this.#endWatch ??= addresses.watch(what => void this.#repair(what))
  }

  /** `keep` leaves them where they are. */
  async release(keep: boolean): Promise<void> {
    this.#endWatch?.()
    this.#endWatch = undefined
    if (!keep) await this.#deps.addresses.remove()
  }

  async #sync(): Promise<void> {
    const { addresses, wanted } = this.#deps
    for (const [cidr, error] of await addresses.sync(wanted)) {
      const advice = permissionAdvice(error)
      throw new ToolError(
        `the proxy address ${cidr} can't be added: ${error}${advice && `; ${advice}`}`,
        'failed',
        '',
      )
    }
  }

  async #repair(what: string): Promise<void> {
    const { repaired } = this.#deps
    try {
      await this.#sync()
      repaired(what, '')
    } catch (error) {
      repaired(what, (error as Error).message)
    }
  }
}
