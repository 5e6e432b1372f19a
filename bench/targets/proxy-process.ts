import { type ChildProcess, spawn } from 'node:child_process'
import { toolEnv } from '../../src/kernel/run-tool.ts'
import { kill } from '../process/signals.ts'
import { processTree } from '../process/usage.ts'
import type { Place } from '../topology/topology.ts'

const keptOutput = 4096
/** Rules of 10 000 Services take a while to remove. */
const endsWithinMs = 10_000

/** A program that serves until it is stopped, with the end of what it has written. */
export class ProxyProcess {
  /** Aborted once it has ended, or could not be started. */
  readonly ended: AbortSignal
  readonly #child: ChildProcess
  readonly #ordinary: RegExp
  #output = ''

  /** @param ordinary - lines that it may write without being suspected of anything */
  constructor(
    place: Pick<Place, 'enter'>,
    argv: readonly string[],
    ordinary: RegExp = /^$/,
  ) {
    this.#ordinary = ordinary
    const [command = '', ...args] = [...place.enter, ...argv]
    const ended = new AbortController()
    this.ended = ended.signal
    this.#child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: toolEnv(),
    })
    this.#child.stdout?.on('data', (text: Buffer) => this.#keep(text.toString()))
    this.#child.stderr?.on('data', (text: Buffer) => this.#keep(text.toString()))
    this.#child.once('error', error => {
      this.#keep(error.message)
      ended.abort()
    })
    // Not `exit`: by then its last words may still be in the pipe.
    this.#child.once('close', () => ended.abort())
  }

  #keep(text: string): void {
    this.#output = (this.#output + text).slice(-keptOutput)
  }

  /** It and all its descendants; none once it has ended. */
  pids(): readonly number[] {
    const { pid } = this.#child
    return pid === undefined || this.#isOver() ? [] : processTree(pid)
  }

  /** The end of what it has written, in a few lines. */
  lastWords(): string {
    return this.#output.trim().split('\n').slice(-5).join('\n') || 'it said nothing'
  }

  /** That it ended, or its last line; '' when all is quiet. */
  complaint(): string {
    const how = this.#child.exitCode ?? this.#child.signalCode
    const lines = this.#output.trim().split('\n')
    const written = lines.findLast(line => !this.#ordinary.test(line)) ?? ''
    return [how === null ? '' : `ended (${how})`, written].filter(Boolean).join(': ')
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#isOver()) this.#child.kill(signal)
  }

  /** Asks it to end, and ends it with all its descendants when it doesn't within `ms`. */
  async stop(ms: number = endsWithinMs): Promise<void> {
    const family = this.pids()
    const patience = AbortSignal.any([this.ended, AbortSignal.timeout(ms)])
    this.signal('SIGTERM')
    await aborted(patience)
    for (const pid of this.#isOver() ? [] : [...family, ...this.pids()]) kill(pid)
    await aborted(this.ended)
  }

  #isOver(): boolean {
    return this.ended.aborted
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
