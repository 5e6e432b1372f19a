import { readFileSync } from 'node:fs'
import type { Clock } from '../../util/clock.ts'
import type { MonitorProcess, SpawnMonitor } from '../nft/monitor.ts'

export interface SleeperDeps {
  readonly clock: Pick<Clock, 'now'>
  readonly spawn: SpawnMonitor
  /** A command that says what changes, like `ip monitor`. */
  readonly line: readonly [command: string, ...args: string[]]
}

/** Milliseconds until it is sure to listen. */
const startMs = 1000
/** Between two starts of one that ends: it has fallen behind, or is not there. */
const restartMs = 60_000

/**
 * A child that sleeps until the kernel tells it of a change. What it says is not read, as some keep
 * that in a buffer: that it has run is enough, and /proc knows. From the first question on; when
 * Usher is killed its pipe is gone, and it ends when it has something to say.
 */
export class Sleeper {
  readonly #deps: SleeperDeps
  #child: MonitorProcess | undefined
  #startedAt = -Infinity

  constructor(deps: SleeperDeps) {
    this.#deps = deps
  }

  /** Another text after each change; undefined while it can't be known whether there are any. */
  get runs(): string | undefined {
    const age = this.#deps.clock.now() - this.#startedAt
    if (this.#child === undefined && age >= restartMs) this.#start()
    const pid = this.#child?.pid
    if (pid === undefined || age < startMs) return undefined
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'latin1')
      // Woken, and without the CPU yet.
      if (!status.includes('\nState:\tS ')) return undefined
      const [switches] = /^voluntary_ctxt_switches:\t[1-9]\d*$/m.exec(status) ?? []
      return switches && `${pid} ${switches}`
    } catch {
      return undefined
    }
  }

  stop(): void {
    this.#child?.kill()
    this.#child = undefined
  }

  #start(): void {
    const { clock, spawn, line } = this.#deps
    const [command, ...args] = line
    this.#startedAt = clock.now()
    const child = spawn(command, args)
    const ended = (): void => {
      if (this.#child === child) this.#child = undefined
    }
    child.once('error', ended)
    child.once('close', ended)
    child.stdout?.resume()
    child.stderr?.resume()
    this.#child = child
  }
}
