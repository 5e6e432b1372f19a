import type { VipRule } from '../vip-rule.ts'
import { clientsChain, guards } from './clients.ts'
import type { ElementChanges } from '../../kernel/nft/elements.ts'
import type { CaptureElement } from './elements.ts'

/**
 * Kernels before 6.2 let go of a chain only some time after the last element that led
 * there; it is taken out with the first change after this many milliseconds.
 */
const chainRestMs = 5000

interface Clients {
  uses: number
  /** When the last use went. */
  idleSince: number
}

/** What of the table several rules share, and by how many: it goes with the last of them. */
export class SharedUses {
  readonly #clusterIps = new Map<string, number>()
  readonly #clients = new Map<string, Clients>()
  #fresh: (readonly string[])[] = []

  enter(rule: VipRule, changes: ElementChanges): void {
    if (isClusterIp(rule)) {
      const uses = this.#clusterIps.get(rule.address) ?? 0
      this.#clusterIps.set(rule.address, uses + 1)
      if (uses === 0) changes.come(clusterIp(rule.address))
    }
    if (guards(rule.allowedClients)) this.#guard(rule.allowedClients)
  }

  /** To be called for all that go before any that comes. */
  leave(rule: VipRule, changes: ElementChanges, now: number): void {
    if (isClusterIp(rule)) {
      const uses = (this.#clusterIps.get(rule.address) ?? 0) - 1
      if (uses > 0) this.#clusterIps.set(rule.address, uses)
      else {
        this.#clusterIps.delete(rule.address)
        changes.gone(clusterIp(rule.address))
      }
    }
    if (!guards(rule.allowedClients)) return
    const clients = this.#clients.get(clientsChain(rule.allowedClients))
    if (clients === undefined) return
    clients.uses--
    clients.idleSince = now
  }

  /** Lists of clients whose chains are to be made; asked once. */
  freshClients(): readonly (readonly string[])[] {
    const fresh = this.#fresh
    this.#fresh = []
    return fresh
  }

  /** Chains that nothing has led to for long enough; asked once. */
  idleChains(now: number): readonly string[] {
    const idle: string[] = []
    for (const [chain, { uses, idleSince }] of this.#clients) {
      if (uses === 0 && now - idleSince >= chainRestMs) idle.push(chain)
    }
    for (const chain of idle) this.#clients.delete(chain)
    return idle
  }

  #guard(list: readonly string[]): void {
    const chain = clientsChain(list)
    const known = this.#clients.get(chain)
    if (known !== undefined) known.uses++
    else {
      this.#clients.set(chain, { uses: 1, idleSince: 0 })
      this.#fresh.push(list)
    }
  }
}

const isClusterIp = (rule: VipRule): rule is VipRule & { readonly address: string } =>
  rule.kind === 'ClusterIP' && rule.address !== undefined

const clusterIp = (address: string): CaptureElement => ({
  set: 'cluster-ips',
  key: address,
  value: '',
})
