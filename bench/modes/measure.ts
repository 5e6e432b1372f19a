import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Child, benchProgram, startChild } from '../process/child.ts'
import { messageOf } from '../measure.ts'
import { openNamespace } from '../rules/namespace.ts'
import {
  type ReplayDone,
  type Step,
  steps,
  type StreamDone,
  type StreamWish,
  type SyncDone,
  type SyncQuestion,
  type ToolCall,
} from './protocol.ts'

/** What one sync took, beside what its tools take by themselves. Milliseconds. */
export interface SyncCost extends Omit<SyncDone, 'calls'> {
  /** The tools that were given rules, run once more on the same input and the same state. */
  readonly toolMs: number
  /** Lines that they were given. */
  readonly lines: number
  /** Tools run, those that only look among them. */
  readonly tools: number
  /** Of the tools that were given rules. */
  readonly peakRssBytes: number
}

export type SyncCosts = Readonly<Record<Step, readonly SyncCost[]>>

export interface ModeFigures {
  readonly proxier: string
  /** Missing when it could not be measured, for `reason`. */
  readonly costs?: SyncCosts
  /** Missing when none was asked for. */
  readonly stream?: StreamDone
  readonly reason: string
}

export interface ModeWish {
  readonly services: number
  /** Of each Service. */
  readonly endpoints: number
  /** How often the endpoints of one Service change, one after the other. */
  readonly changes: number
  readonly stream: StreamWish
}

/** Of the steps that are not endpoint changes. */
const repetitions: Readonly<Record<Exclude<Step, 'endpoint'>, number>> = {
  first: 1,
  unchanged: 5,
  added: 10,
  removed: 10,
  full: 3,
}

/** What takes as long as this is not done again. */
const slowMs = 20_000

/** For one sync, or one tool: more than any should take. */
const answerWithinMs = 600_000

/**
 * From snapshots to rules in the kernel, in a namespace of the bench's own; beside it the
 * same tools are given the same in a second one. Ends early on `signal`.
 */
export const measureModes = async (
  proxiers: readonly string[],
  wish: ModeWish,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<readonly ModeFigures[]> => {
  const figures: ModeFigures[] = []
  for (const proxier of proxiers) {
    if (signal.aborted) break
    say(`modes: ${proxier}, ${wish.services} Services`)
    const found = await measureOne(proxier, wish, signal)
    // A tool that Ctrl-C ended is no reason.
    if (signal.aborted) break
    figures.push(found)
  }
  return figures
}

const measureOne = async (
  proxier: string,
  wish: ModeWish,
  signal: AbortSignal,
): Promise<ModeFigures> => {
  const closers: (() => Promise<unknown>)[] = []
  try {
    const bench = await openBench(closers)
    const open: SyncQuestion = {
      do: 'open',
      proxier,
      services: wish.services,
      endpoints: wish.endpoints,
      folder: bench.folder,
    }
    await bench.sync.ask(open, answerWithinMs)
    const costs = await costsOf(bench, wish, signal)
    const stream = await streamOf(bench, wish)
    await bench.sync.ask({ do: 'close' } satisfies SyncQuestion, answerWithinMs)
    return { proxier, costs, ...(stream && { stream }), reason: '' }
  } catch (error) {
    return { proxier, reason: messageOf(error) }
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

/** A process that syncs and one that runs the same tools, each in its own namespace. */
interface Bench {
  readonly sync: Child
  readonly replay: Child
  readonly folder: string
}

const openBench = async (closers: (() => Promise<unknown>)[]): Promise<Bench> => {
  const folder = await mkdtemp(join(tmpdir(), 'usher-bench-modes-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const start = async (name: string): Promise<Child> => {
    const namespace = await openNamespace(name)
    closers.push(namespace.close)
    const child = startChild(benchProgram(`modes/${name}-main`), namespace.enter)
    closers.push(() => child.stop())
    return child
  }
  return { sync: await start('sync'), replay: await start('replay'), folder }
}

const costsOf = async (
  bench: Bench,
  { services, changes }: ModeWish,
  signal: AbortSignal,
): Promise<SyncCosts> => {
  const costs: Record<Step, SyncCost[]> = {
    first: [],
    unchanged: [],
    endpoint: [],
    added: [],
    removed: [],
    full: [],
  }
  for (const [step, i] of courseOf(services, changes)) {
    signal.throwIfAborted()
    if (costs[step].some(({ wallMs }) => wallMs > slowMs)) continue
    costs[step].push(await costOf(bench, { do: 'sync', step, i }))
  }
  return costs
}

const streamOf = async (
  { sync }: Bench,
  { stream }: ModeWish,
): Promise<StreamDone | undefined> =>
  stream.seconds === 0
    ? undefined
    : ((await sync.ask(
        { do: 'stream', ...stream } satisfies SyncQuestion,
        stream.seconds * 1000 + answerWithinMs,
      )) as StreamDone)

/** Each step with the Service that it is about, in the order in which they are made. */
export const courseOf = (
  services: number,
  changes: number,
): readonly (readonly [Step, number])[] => {
  const course: (readonly [Step, number])[] = []
  for (const step of steps) {
    if (step === 'removed') continue
    const times = step === 'endpoint' ? changes : repetitions[step]
    for (let n = 0; n < times; n += 1) {
      // Spread over all: the last rules of a table may cost more than the first.
      const i = Math.floor((n * services) / times)
      course.push([step, step === 'added' ? services + n : i])
      if (step === 'added') course.push(['removed', services + n])
    }
  }
  return course
}

const costOf = async (
  { sync, replay }: Bench,
  question: SyncQuestion,
): Promise<SyncCost> => {
  const done = (await sync.ask(question, answerWithinMs)) as SyncDone
  let [toolMs, lines, peakRssBytes] = [0, 0, 0]
  for (const call of done.calls) {
    if (onlyReads(call)) continue
    const alone = (await replay.ask(call, answerWithinMs)) as ReplayDone
    if (call.input === '') continue
    toolMs += alone.ms
    peakRssBytes = Math.max(peakRssBytes, alone.peakRssBytes)
    lines += call.lines
    await rm(call.input)
  }
  const { calls, ...times } = done
  return { ...times, toolMs, lines, peakRssBytes, tools: calls.length }
}

/** To run it once more would change nothing. */
const onlyReads = ({ command, args, input }: ToolCall): boolean =>
  input === '' &&
  (command === 'cat' ||
    command.endsWith('-save') ||
    args.some(arg => /^(?:--version|-S|-L\w*|list|save|show)$/.test(arg)))
