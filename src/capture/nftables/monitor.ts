import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { Clock, Timer } from '../../util/clock.ts'
import { type MonitorEvent, MonitorEvents } from './monitor-events.ts'
import { toolEnv } from '../../kernel/run-tool.ts'

/** A child process that writes what `nft monitor` writes. */
export interface MonitorProcess {
  /** Null or undefined when there was no descriptor for them; `error` follows. */
  readonly stdout: Readable | null | undefined
  readonly stderr: Readable | null | undefined
  once(event: 'error', callback: (error: Error) => void): unknown
  once(event: 'close', callback: (code: number | null) => void): unknown
  kill(): unknown
}

export type SpawnMonitor = (command: string, args: readonly string[]) => MonitorProcess

export interface MonitorDeps {
  readonly clock: Clock
  readonly spawn: SpawnMonitor
}

export interface MonitorListener {
  event(event: MonitorEvent): void
  /** It runs, and may have missed what happened before. */
  started(): void
  ended(why: string): void
}

/** Milliseconds before it is started again: doubled each time up to the second. */
const firstRestMs = 1000
const longestRestMs = 60_000

export const spawnMonitor: SpawnMonitor = (command, args) =>
  spawn(command, [...args], { env: toolEnv(), stdio: ['ignore', 'pipe', 'pipe'] })

/**
 * One `nft monitor` for all who listen, for as long as somebody does. When Usher is
 * killed its pipe is gone, and the child ends at the next change of anybody's rules.
 */
export class Monitor {
  readonly #deps: MonitorDeps
  readonly #listeners = new Set<MonitorListener>()
  #process: MonitorProcess | undefined
  #timer: Timer | undefined
  #restMs = firstRestMs

  constructor(deps: MonitorDeps) {
    this.#deps = deps
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  /** Until the returned function is called. */
  listen(listener: MonitorListener): () => void {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) this.#start()
    else if (this.running) listener.started()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  #start(): void {
    const { clock } = this.#deps
    const child = this.#deps.spawn('nft', ['monitor'])
    const since = clock.now()
    const events = new MonitorEvents()
    let stderr = ''
    this.#process = child
    // Elements of some types come as raw bytes (nft 1.0.6).
    child.stdout?.setEncoding('latin1')
    child.stdout?.on('data', (chunk: string) => {
      if (this.#process !== child) return
      for (const event of events.read(chunk)) {
        for (const listener of this.#listeners) listener.event(event)
      }
    })
    child.stderr?.setEncoding('latin1')
    child.stderr?.on('data', (chunk: string) => {
      stderr = (stderr + chunk).slice(0, 300)
    })
    const ended = (why: string): void => {
      if (this.#process !== child) return
      this.#process = undefined
      if (clock.now() - since >= longestRestMs) this.#restMs = firstRestMs
      this.#timer = clock.setTimeout(() => this.#start(), this.#restMs)
      this.#restMs = Math.min(this.#restMs * 2, longestRestMs)
      for (const listener of this.#listeners) listener.ended(why)
    }
    child.once('error', error => ended(`nft monitor: ${error.message}`))
    child.once('close', code => ended(endText(code, stderr)))
    if (!child.stdout) return
    for (const listener of this.#listeners) listener.started()
  }

  #stop(): void {
    this.#deps.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#restMs = firstRestMs
    const child = this.#process
    this.#process = undefined
    child?.kill()
  }
}

const endText = (code: number | null, stderr: string): string => {
  const [first = ''] = stderr.trim().split('\n')
  return `nft monitor: ${first === '' ? 'ended' : first} (exit code ${code})`
}
