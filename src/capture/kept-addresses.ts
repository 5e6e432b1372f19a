import { permissionAdvice } from '../kernel/permission-advice.ts'
import type { HostAddresses } from '../kernel/host-addresses/host-addresses.ts'
import { ToolError } from '../kernel/run-tool.ts'
import { tryToBind } from './try-port.ts'

export interface KeptAddressesDeps {
  readonly addresses: HostAddresses
  /** Another program took some away; '' for `error` when they are back. */
  readonly repaired: (what: string, error: string) => void
  /** Asks for a sync, which puts them back. */
  readonly resync: () => void
}

/** Addresses that are this host's own for as long as they are needed. */
export class KeptAddresses {
  readonly #deps: KeptAddressesDeps
  readonly #wanted = new Set<string>()
  /** What was taken away since the last sync of them; '' for nothing. */
  #damage = ''
  #endWatch: (() => void) | undefined

  constructor(deps: KeptAddressesDeps) {
    this.#deps = deps
  }

  /**
   * Costs a socket while it is there (a CIDR of one address). `all`: with those that are taken next, which are
   * not to be taken away meanwhile, as connections of an earlier process use them. Rejects when it can't be
   * set.
   */
  async take(cidr: string, all: readonly string[]): Promise<void> {
    const { addresses, repaired, resync } = this.#deps
    const isNew = !this.#wanted.has(cidr)
    if (!isNew && this.#damage === '' && (await isThere(cidr))) return
    this.#wanted.add(cidr)
    const gone = await addresses.missing()
    const error = (await addresses.sync([...new Set([...this.#wanted, ...all])])).get(
      cidr,
    )
    this.#endWatch ??= addresses.watch(what => {
      this.#damage = what
      resync()
    })
    const damage = this.#damage || (isNew ? '' : gone.join(', '))
    this.#damage = ''
    if (damage !== '') repaired(damage, error ?? '')
    if (error === undefined) return
    const advice = permissionAdvice(error)
    const text = `the proxy address ${cidr} can't be added: ${error}${advice && `; ${advice}`}`
    throw new ToolError(text, 'failed', '')
  }

  /** `keep` leaves them where they are. */
  async release(keep: boolean): Promise<void> {
    this.#endWatch?.()
    this.#endWatch = undefined
    if (!keep) await this.#deps.addresses.remove()
  }
}

/** Where there is no socket to ask with, nothing is known, and it is as before. */
const isThere = async (cidr: string): Promise<boolean> => {
  const [address = ''] = cidr.split('/')
  return (await tryToBind('UDP', [address], 0).catch(() => 0)) !== undefined
}
