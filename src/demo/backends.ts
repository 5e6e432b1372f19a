import { demoError, type PlannedBackend } from './plan.ts'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { type AddressPort, joinHostPort } from '../util/ip.ts'
import type { Clock, Timer } from '../util/clock.ts'
import type { BackendMessage } from './backend-process.ts'
import { portInUse } from './ready.ts'
import { programFile } from '../util/own-files.ts'
import { messageOf } from '../util/usher-error.ts'

/** A backend of the plan, as it runs. */
export interface Backend extends PlannedBackend {
  /** Undefined while it is not running. */
  readonly pid: number | undefined
  /** Where it really listens. */
  readonly listensOn: AddressPort
}

interface BackendsDeps {
  readonly clock: Clock
  /** Between the death of a backend and its new start. */
  readonly restartMs: number
  /** True puts all of them on ports of 127.0.0.1, which the system chooses. */
  readonly oneAddress: boolean
  /** Shows what happens to backends after the start. */
  readonly print: (text: string) => void
}

/** The longest a backend may take to start, or to leave when asked to. */
const startMs = 10_000
const leaveMs = 1000

/** One endpoint's process, started again whenever it dies. */
class Slot {
  readonly plan: PlannedBackend
  listensOn: AddressPort
  child: ChildProcess | undefined
  readonly #deps: BackendsDeps
  #restart: Timer | undefined
  #stopping = false

  constructor(plan: PlannedBackend, deps: BackendsDeps) {
    this.plan = plan
    this.#deps = deps
    this.listensOn = deps.oneAddress ? { address: '127.0.0.1', port: 0 } : plan
  }

  get pid(): number | undefined {
    return this.child?.pid
  }

  /** Resolves when it listens; rejects when it can't, or has not after 10 s. */
  async start(): Promise<void> {
    const { name, speaks } = this.plan
    const { address, port } = this.listensOn
    const program = programFile('demo-backend')
    const child = fork(program, [speaks, name, address, String(port)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      // Node's own flags of this process (a debugger's port) are not for it.
      execArgv: [],
      // What a whole process group is sent, as by Ctrl-C, is for the demo, which ends them after the proxy.
      detached: process.platform !== 'win32',
    })
    this.child = child
    // Its exit is what counts; a message that can't reach a dying child is no news.
    child.on('error', () => {})
    const message = await firstMessage(child, this.#deps.clock)
    if (message.kind === 'failed') {
      this.child = undefined
      const where = joinHostPort(address, port)
      throw demoError(
        message.code === 'EADDRINUSE'
          ? portInUse(where, `backend ${name}`)
          : `backend ${name} can't listen on ${where}: ${message.message}`,
      )
    }
    this.listensOn = { address, port: message.port }
    if (this.#stopping) return
    if (hasEnded(child)) this.#died()
    else child.once('exit', () => this.#died())
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.#deps.clock.clearTimeout(this.#restart)
    const { child } = this
    if (child?.pid === undefined || hasEnded(child)) return
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    const { clock } = this.#deps
    const timer = clock.setTimeout(() => child.kill('SIGKILL'), leaveMs)
    await gone
    clock.clearTimeout(timer)
  }

  #died(): void {
    if (this.#stopping) return
    const { name } = this.plan
    const pid = this.pid
    this.child = undefined
    this.#deps.print(
      `backend ${name} (pid ${pid}) was killed; starting it again in ${seconds(this.#deps.restartMs)}`,
    )
    this.#startLater()
  }

  #startLater(): void {
    const { clock, restartMs, print } = this.#deps
    const { name } = this.plan
    this.#restart = clock.setTimeout(() => {
      this.start().then(
        () => print(`backend ${name} is back (pid ${this.pid})`),
        (error: unknown) => {
          if (this.#stopping) return
          print(`${messageOf(error)} Trying again in ${seconds(restartMs)}.`)
          this.#startLater()
        },
      )
    }, restartMs)
  }
}

/** The demo's backend processes. `stop` ends every one of them by its pid. */
export class Backends {
  readonly #slots: readonly Slot[]

  constructor(plan: readonly PlannedBackend[], deps: BackendsDeps) {
    this.#slots = plan.filter(({ dead }) => !dead).map(one => new Slot(one, deps))
  }

  /** Starts them all; rejects with the first that can't start, the others still run. */
  async start(): Promise<void> {
    const results = await Promise.allSettled(this.#slots.map(slot => slot.start()))
    const failed = results.find(result => result.status === 'rejected')
    if (failed) throw failed.reason
  }

  list(): readonly Backend[] {
    return this.#slots.map(({ plan, pid, listensOn }) => ({ ...plan, pid, listensOn }))
  }

  async stop(): Promise<void> {
    await Promise.all(this.#slots.map(slot => slot.stop()))
  }
}

const firstMessage = (child: ChildProcess, clock: Clock): Promise<BackendMessage> =>
  new Promise((resolve, reject) => {
    const timer = clock.setTimeout(() => {
      child.kill('SIGKILL')
      settle(() => reject(demoError(`a backend did not start in ${seconds(startMs)}`)))
    }, startMs)
    const settle = (then: () => void): void => {
      clock.clearTimeout(timer)
      child.removeAllListeners('message')
      child.removeListener('error', broken)
      child.removeListener('exit', exited)
      then()
    }
    const broken = (error: Error): void =>
      settle(() => reject(demoError(`can't start a backend: ${error.message}`)))
    const exited = (code: number | null, signal: string | null): void =>
      settle(() => reject(demoError(`a backend ended at once (${signal ?? code})`)))
    child.once('message', (message: BackendMessage) => settle(() => resolve(message)))
    child.once('error', broken)
    child.once('exit', exited)
  })

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null

const seconds = (ms: number): string => `${ms / 1000} s`
