import type { Clock } from '../../util/clock.ts'
import { isWildcard } from '../../util/ip.ts'
import { bindKey } from '../counters.ts'
import { FdBudget } from '../fd-budget.ts'
import type {
  Bind,
  DrainResult,
  Relay,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
} from '../relay.ts'
import { Patrol } from './patrol.ts'
import { Handover } from './handover.ts'
import type { PortListener, RelayEnv } from './port-listener.ts'
import { TcpListener } from './tcp-listener.ts'
import { UdpFlows } from './udp-flows.ts'
import { UdpListener } from './udp-listener.ts'
import { Undelivered } from './undelivered.ts'

export interface PortableRelayDeps {
  readonly clock: Clock
  /** 0 <= n < 1. */
  readonly random: () => number
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
}

/** The relay on node:net and node:dgram: runs wherever Node runs. */
export class PortableRelay implements Relay {
  readonly #env: RelayEnv
  readonly #listeners = new Map<string, PortListener>()
  #udpBinds = new Set<string>()
  #draining = false
  #drained: (() => void) | undefined

  constructor({ clock, random, limits, observer, openFileLimit }: PortableRelayDeps) {
    const gates: RelayEnv['gates'] = new Set()
    const budget = new FdBudget(openFileLimit, limits.reservedFds, exhausted => {
      for (const gate of gates) {
        if (exhausted) gate.stop()
        else gate.start()
      }
      observer.acceptPaused(exhausted, budget.used, budget.limit)
    })
    const undelivered = new Undelivered(clock)
    this.#env = {
      clock,
      random,
      limits,
      observer,
      budget,
      gates,
      handover: new Handover(),
      undelivered,
      patrol: new Patrol(clock, undelivered, limits.halfCloseIdleMs),
      udpFlows: new UdpFlows(clock, limits, budget),
      isOwn: (address, port) => this.#udpBinds.has(bindKey({ address, port })),
    }
  }

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    if (this.#draining) return
    const wanted = new Set(listeners.map(({ id }) => id))
    this.#udpBinds = ownUdpBinds(listeners)
    // Every port that is let go must be before others may ask for it.
    for (const [id, listener] of this.#listeners) if (!wanted.has(id)) listener.retire()
    for (const spec of listeners) this.#listener(spec).update(spec)
    await Promise.all(listeners.map(spec => this.#listener(spec).listen()))
  }

  stats(): RelayStats {
    const { budget } = this.#env
    return {
      listeners: [...this.#listeners.values()].map(listener => listener.stats()),
      fds: { used: budget.used, limit: budget.limit },
      acceptPaused: budget.exhausted,
    }
  }

  async drain(ms: number): Promise<DrainResult> {
    const { clock } = this.#env
    this.#draining = true
    for (const listener of this.#listeners.values()) listener.stopAccepting()
    await new Promise<void>(resolve => {
      const timer = clock.setTimeout(resolve, ms)
      this.#drained = () => {
        clock.clearTimeout(timer)
        resolve()
      }
      this.#checkDrained()
    })
    let reset = 0
    for (const listener of this.#listeners.values()) reset += listener.kill()
    return { reset }
  }

  #listener(spec: RelayListener): PortListener {
    const known = this.#listeners.get(spec.id)
    if (known !== undefined) return known
    const Listener = spec.protocol === 'TCP' ? TcpListener : UdpListener
    const listener = new Listener(this.#env, spec, {
      retired: () => this.#listeners.delete(spec.id),
      connectionEnded: () => this.#checkDrained(),
    })
    this.#listeners.set(spec.id, listener)
    return listener
  }

  #checkDrained(): void {
    if (this.#drained === undefined) return
    for (const { connections } of this.#listeners.values()) if (connections > 0) return
    this.#drained()
  }
}

const ownUdpBinds = (listeners: readonly RelayListener[]): Set<string> => {
  const udp = listeners.filter(({ protocol }) => protocol === 'UDP')
  const binds: Bind[] = udp.flatMap(listener => listener.binds)
  return new Set(binds.filter(({ address }) => !isWildcard(address)).map(bindKey))
}
