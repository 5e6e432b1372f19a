import { spawn } from 'node:child_process'
import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'
import { Backoff } from '../../util/backoff.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { toolEnv } from '../run-tool.ts'

/** A child process that writes what `nft monitor` writes. */
export interface MonitorProcess {
  /** Undefined when it could not be started; `error` follows. */
  readonly pid?: number | undefined
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
  /** The names of the tables it reports, in the families ip and ip6. */
  readonly tables: readonly string[]
}

export interface MonitorListener {
  event(event: MonitorEvent): void
  /** It runs, and may have missed what happened before. */
  started(): void
  ended(reason: string): void
}

/** Milliseconds before it is started again; one that ran longer than the most begins anew. */
const restartDelays = { firstMs: 1000, mostMs: 60_000 }
/** Until it is renewed, once for all that ask meanwhile. */
const renewMs = 1000

export const spawnMonitor: SpawnMonitor = (command, args) => {
  try {
    return spawn(command, [...args], {
      env: toolEnv(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } catch (error) {
    // Node throws what it has no event for: ENOMEM.
    const none = { stdout: null, stderr: null, kill: () => false }
    const child = Object.assign(new EventEmitter(), none)
    process.nextTick(() => child.emit('error', error))
    return child
  }
}

/**
 * One `nft monitor` for all listeners, for as long as there is one. When Usher is killed its
 * pipe is gone, and the child ends at the next change of any rules.
 */
export class Monitor {
  readonly #deps: MonitorDeps
  readonly #listeners = new Set<MonitorListener>()
  #process: MonitorProcess | undefined
  #timer: Timer | undefined
  #renewal: Timer | undefined
  readonly #restartBackoff = new Backoff(restartDelays)

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

  /** Soon it runs anew, and knows again the sets that it has forgotten; see MonitorEvent. */
  renew(): void {
    this.#renewal ??= this.#deps.clock.setTimeout(() => {
      this.#renewal = undefined
      const child = this.#process
      if (child === undefined) return
      this.#process = undefined
      child.kill()
      this.#start()
    }, renewMs)
  }

  #start(): void {
    const { clock } = this.#deps
    const child = this.#deps.spawn('nft', ['monitor'])
    const since = clock.now()
    const events = new MonitorEvents(this.#deps.tables)
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
    const ended = (reason: string): void => {
      if (this.#process !== child) return
      this.#process = undefined
      if (clock.now() - since >= restartDelays.mostMs) this.#restartBackoff.reset()
      this.#timer = clock.setTimeout(() => this.#start(), this.#restartBackoff.next())
      for (const listener of this.#listeners) listener.ended(reason)
    }
    child.once('error', error => ended(`nft monitor: ${error.message}`))
    child.once('close', code => ended(endText(code, stderr)))
    if (!child.stdout) return
    for (const listener of this.#listeners) listener.started()
  }

  #stop(): void {
    this.#deps.clock.clearTimeout(this.#timer)
    this.#deps.clock.clearTimeout(this.#renewal)
    this.#timer = undefined
    this.#renewal = undefined
    this.#restartBackoff.reset()
    const child = this.#process
    this.#process = undefined
    child?.kill()
  }
}

const endText = (code: number | null, stderr: string): string => {
  const [first = ''] = stderr.trim().split('\n')
  return `nft monitor: ${first === '' ? 'ended' : first} (exit code ${code})`
}

/** What one transaction did to the tables that are listened for. */
export interface Transaction {
  /** Who did it, as in `nft (process 17)`. */
  readonly by: string
  /** By table, as in `ip usher`. */
  readonly touched: ReadonlyMap<string, Touch>
}

export interface Touch {
  /** The first of the changes, cut to a few words. */
  readonly what: string
  /** Elements that came into the set `stamp`. */
  readonly stamps: readonly string[]
}

/**
 * `unseen`: a transaction of which nothing was shown. A monitor forgets a set, and shows no more
 * of its elements, when a rule goes that looked into it (nft 1.0.2 to 1.1.7).
 */
export type MonitorEvent = Transaction | 'lost events' | 'unseen'

/** Enough to know what a line is about; nft 1.0.6 writes some of hundreds of kilobytes. */
const longestLine = 300

/** Reads the text of `nft monitor`, which may be cut anywhere. */
export class MonitorEvents {
  readonly #own: RegExp
  #rest = ''
  #isSeen = false
  #touched = new Map<string, { what: string; stamps: string[] }>()

  /** `names` are those of the tables. */
  constructor(names: readonly string[]) {
    this.#own = new RegExp(`^\\w+ \\w+ (ip6? (?:${names.join('|')}))(?= |$)(.*)`)
  }

  /** The transactions on these tables that are complete by now. */
  read(chunk: string): readonly MonitorEvent[] {
    const lines = (this.#rest + chunk).split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, longestLine)
    return lines.flatMap(line => this.#line(line) ?? [])
  }

  #line(line: string): MonitorEvent | undefined {
    if (line.startsWith('#')) return this.#end(line)
    this.#isSeen = true
    const match = this.#own.exec(line.slice(0, longestLine))
    const [, table, rest] = match ?? []
    if (table === undefined || rest === undefined) return undefined
    let touch = this.#touched.get(table)
    if (touch === undefined) {
      touch = { what: line.slice(0, 100).trimEnd(), stamps: [] }
      this.#touched.set(table, touch)
    }
    const stamp = /^ stamp \{ (0x\w+) \}/.exec(rest)?.[1]
    if (stamp !== undefined && line.startsWith('add element')) touch.stamps.push(stamp)
    return undefined
  }

  /** `# new generation 7 by process 123 (nft)`, or words about lost events. */
  #end(line: string): MonitorEvent | undefined {
    if (/lost/i.test(line)) {
      this.#touched = new Map()
      return 'lost events'
    }
    const [, pid = '?', name = '?'] = /by process (\d+) \((.*)\)/.exec(line) ?? []
    const [touched, isSeen] = [this.#touched, this.#isSeen]
    this.#touched = new Map()
    this.#isSeen = false
    if (!isSeen) return 'unseen'
    return touched.size === 0 ? undefined : { by: `${name} (process ${pid})`, touched }
  }
}
