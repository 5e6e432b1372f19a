import type { NodeClients } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'

export interface NodeClientsWatchDeps {
  readonly clock: Clock
  /** The addresses of the host's interfaces. */
  readonly ownAddresses: () => readonly string[]
  /** CIDRs of this node's pods (--detect-local-mode). Empty: they count as outside clients. */
  readonly podCidrs: () => readonly string[]
  /** Called with what is new. */
  readonly changed: (clients: NodeClients) => void
  /**
   * Called with why they can't be read, once for as long as it stays the same; with '' when they can
   * again.
   */
  readonly failed: (reason: string) => void
}

/** Interfaces and the Node object change rarely, and reading them costs a system call. */
const pollMs = 5000
const loopbackCidrs = ['127.0.0.0/8', '::1/128']

export const nodeClientsOf = (
  ownAddresses: readonly string[],
  podCidrs: readonly string[],
): NodeClients => ({
  addresses: ownAddresses.toSorted(),
  cidrs: [...loopbackCidrs, ...podCidrs],
})

/**
 * Keeps up which clients are on this node, its own processes and its pods:
 * externalTrafficPolicy does not apply to them, they reach every endpoint from everywhere.
 */
export class NodeClientsWatch {
  readonly #deps: NodeClientsWatchDeps
  #last = ''
  #problem = ''
  #timer: Timer | undefined

  constructor(deps: NodeClientsWatchDeps) {
    this.#deps = deps
  }

  /**
   * Reads them now, and every 5 s from now on. What was known goes on where they can't be read
   * (getifaddrs(3) takes a descriptor and memory); throws when nothing is known yet.
   */
  poll(): void {
    this.stop()
    try {
      this.#read()
      this.#report('')
    } catch (error) {
      if (this.#last === '') throw error
      this.#report((error as Error).message)
    }
    this.#timer = this.#deps.clock.setTimeout(() => this.poll(), pollMs)
  }

  stop(): void {
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #read(): void {
    const { ownAddresses, podCidrs, changed } = this.#deps
    const clients = nodeClientsOf(ownAddresses(), podCidrs())
    const text = JSON.stringify(clients)
    if (text === this.#last) return
    this.#last = text
    changed(clients)
  }

  #report(problem: string): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#deps.failed(problem)
  }
}
