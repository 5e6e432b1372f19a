import type { NodeClients } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'

export interface NodeClientsWatchDeps {
  readonly clock: Clock
  /** The addresses of the host's interfaces. */
  readonly ownAddresses: () => readonly string[]
  /**
   * CIDRs of the pods whose traffic counts as this node's: --cluster-cidr, or the node's
   * podCIDRs (--detect-local-mode). Empty: pods count as outside clients.
   */
  readonly podCidrs: () => readonly string[]
  /** Called with what is new. */
  readonly changed: (clients: NodeClients) => void
}

/** Interfaces and the Node object change rarely, and reading them costs a system call. */
const lookMs = 5000
const loopbackCidrs = ['127.0.0.0/8', '::1/128']

/**
 * Keeps up which clients are on this node, its own processes and its pods:
 * externalTrafficPolicy does not apply to them, they reach every endpoint from everywhere.
 */
export class NodeClientsWatch {
  readonly #deps: NodeClientsWatchDeps
  #last = ''
  #timer: Timer | undefined

  constructor(deps: NodeClientsWatchDeps) {
    this.#deps = deps
  }

  /** Reads them now, and every 5 s from now on. */
  look(): void {
    const { clock, ownAddresses, podCidrs, changed } = this.#deps
    clock.clearTimeout(this.#timer)
    this.#timer = clock.setTimeout(() => this.look(), lookMs)
    const clients = {
      addresses: ownAddresses().toSorted(),
      cidrs: [...loopbackCidrs, ...podCidrs()],
    }
    const text = JSON.stringify(clients)
    if (text === this.#last) return
    this.#last = text
    changed(clients)
  }

  stop(): void {
    this.#deps.clock.clearTimeout(this.#timer)
  }
}
