import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunTool, runTool, toolEnv } from '../../src/kernel/run-tool.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { answerParent } from '../process/child.ts'
import { Cluster } from './cluster.ts'
import type {
  ReplayDone,
  Step,
  StreamDone,
  StreamWish,
  SyncDone,
  SyncQuestion,
  ToolCall,
} from './sync.ts'
import { spending, stream } from './stream.ts'
import { openSubject, type Subject } from './subjects.ts'

/*
 * Syncs Services to the kernel of the network namespace that it is started in; or runs there,
 * on inputs that are there already, the tools that another one has run: what they take by themselves.
 */

interface Opened {
  readonly subject: Subject
  readonly cluster: Cluster
  readonly services: number
  readonly recorder: Recorder
}

let opened: Opened | undefined

const answer = async (
  question: SyncQuestion,
): Promise<SyncDone | StreamDone | ReplayDone | undefined> => {
  if (question.do === 'replay') return replay(question)
  if (question.do === 'open') return void (opened = await openedFor(question))
  if (opened === undefined) throw new Error('it was not opened')
  if (question.do === 'sync') return sync(opened, question.step, question.i)
  if (question.do === 'stream') return streamOf(opened, question)
  return void (await opened.subject.close())
}

const openedFor = async ({
  part,
  name,
  services,
  endpoints,
  folder,
}: Extract<SyncQuestion, { do: 'open' }>): Promise<Opened> => {
  const recorder = new Recorder(folder)
  const subject = await openSubject(part, name, recorder.run)
  if (subject === undefined) throw new Error(`there is no ${name}`)
  recorder.clear()
  return { subject, cluster: new Cluster(services, endpoints), services, recorder }
}

const sync = async (
  { subject, cluster, recorder }: Opened,
  step: Step,
  i: number,
): Promise<SyncDone> => {
  if (step === 'endpoint') cluster.moveEndpoint(i)
  else if (step === 'added') cluster.add(i)
  else if (step === 'removed') cluster.remove(i)
  else if (step === 'full') subject.forget()
  const snapshot = cluster.snapshot()
  const spent = spending()
  const { work } = await subject.sync(snapshot)
  return { ...spent(), work, ...(await recorder.take()) }
}

/** What watches reads all rules once when it starts, and again when they change meanwhile. */
const watchStartMs = 5000

/** A prime, so that changes are all over the Services. */
const stride = 7919

/** With the rules watched, which costs something at each change of them. */
const streamOf = async (
  { subject, cluster, services, recorder }: Opened,
  wish: StreamWish,
): Promise<StreamDone> => {
  let damage = ''
  const endWatch = subject.watch(what => void (damage = what))
  try {
    await sleep(watchStartMs)
    const change = (n: number): void => cluster.moveEndpoint((n * stride) % services)
    const write = () => subject.sync(cluster.snapshot())
    const done = await stream({ clock, change, sync: write }, wish)
    if (damage !== '') throw new Error(`its own changes were taken for damage: ${damage}`)
    return done
  } finally {
    endWatch()
    recorder.clear()
  }
}

/** Runs tools, and remembers how they were called and how long those took that had an input. */
class Recorder {
  #calls: Omit<ToolCall, 'lines'>[] = []
  #files = 0
  #waitedMs = 0
  readonly #folder: string

  /** @param folder - where inputs are written to */
  constructor(folder: string) {
    this.#folder = folder
  }

  readonly run: RunTool = async (command, args, options) => {
    const { input = '' } = options ?? {}
    this.#calls.push({ command, args, input })
    const startedAt = performance.now()
    try {
      return await runTool(command, args, options)
    } finally {
      if (input !== '') this.#waitedMs += performance.now() - startedAt
    }
  }

  /** The calls since the last time, with their inputs as files. */
  async take(): Promise<Pick<SyncDone, 'calls' | 'waitedMs'>> {
    const { calls, waitedMs } = { calls: this.#calls, waitedMs: this.#waitedMs }
    this.clear()
    return { calls: await Promise.all(calls.map(call => this.#kept(call))), waitedMs }
  }

  clear(): void {
    this.#calls = []
    this.#waitedMs = 0
  }

  async #kept({ command, args, input }: Omit<ToolCall, 'lines'>): Promise<ToolCall> {
    if (input === '') return { command, args, input, lines: 0 }
    const file = join(this.#folder, `input-${(this.#files += 1)}`)
    await writeFile(file, input)
    const lines = input.split('\n').filter(line => line !== '' && !line.startsWith('#'))
    return { command, args, input: file, lines: lines.length }
  }
}

/** From a tool's start to its end. Rejects when it fails. */
const replay = async ({ command, args, input }: ToolCall): Promise<ReplayDone> => {
  const file = await open(input === '' ? '/dev/null' : input)
  try {
    const startedAt = performance.now()
    const child = spawn(command, args, {
      env: toolEnv(),
      stdio: [file.fd, 'ignore', 'inherit'],
    })
    let peakRssBytes = 0
    const look = (): void => void (peakRssBytes = Math.max(peakRssBytes, mostOf(child.pid)))
    const timer = setInterval(look, lookEveryMs)
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', resolve)
    }).finally(() => clearInterval(timer))
    // What was tried only need not succeed.
    if (code !== 0 && input !== '')
      throw new Error(`${command}, run once more: exit code ${code}`)
    return { ms: performance.now() - startedAt, peakRssBytes }
  } finally {
    await file.close()
  }
}

/** What a tool takes in its last 5 ms may be missed; it has it all before the kernel does its part. */
const lookEveryMs = 5

/** The most memory that a process has had; 0 when it has ended. */
const mostOf = (pid: number | undefined): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

answerParent(question => answer(question as SyncQuestion))
