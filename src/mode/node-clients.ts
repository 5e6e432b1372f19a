import { type Cidr, cidrContains, parseCidr } from '../util/cidr.ts'
import type { Clock } from '../util/clock.ts'
import { isLoopback } from '../util/ip.ts'

export interface NodeClientsDeps {
  readonly clock: Pick<Clock, 'now'>
  /** The addresses of the host's interfaces. */
  readonly ownAddresses: () => readonly string[]
  /**
   * CIDRs of the pods whose traffic counts as this node's: --cluster-cidr, or the node's
   * podCIDRs (--detect-local-mode). Empty: pods count as outside clients.
   */
  readonly podCidrs: () => readonly string[]
}

/** Interfaces and a Node object change rarely, and asking for them costs a system call. */
const rememberMs = 5000

/**
 * Which clients are on this node: its own processes and its pods. externalTrafficPolicy
 * does not apply to them; they reach every endpoint from everywhere.
 */
export class NodeClients {
  readonly #deps: NodeClientsDeps
  #readAt = -Infinity
  #own: ReadonlySet<string> = new Set()
  #pods: readonly Cidr[] = []

  constructor(deps: NodeClientsDeps) {
    this.#deps = deps
  }

  has(address: string): boolean {
    if (isLoopback(address)) return true
    this.#refresh()
    return this.#own.has(address) || this.#pods.some(cidr => cidrContains(cidr, address))
  }

  #refresh(): void {
    const { clock, ownAddresses, podCidrs } = this.#deps
    const now = clock.now()
    if (now - this.#readAt < rememberMs) return
    this.#readAt = now
    this.#own = new Set(ownAddresses())
    this.#pods = podCidrs().flatMap(text => parseCidr(text) ?? [])
  }
}
