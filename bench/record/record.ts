import * as v from 'valibot'
import { list, object, text } from '../../src/source/decode/fields.ts'
import { faultOf } from '../../src/source/decode/problem.ts'
import { show } from '../../src/util/printable.ts'
import { isNot, wholeNumber } from '../../src/util/schema.ts'

/*
 * Everything that one run of a bench has found: plain data, written as JSON, and all that
 * reports are made of. Both benches, of the data path and of the control plane, fill it.
 */

const format = 'usher-bench/1'

/** The round of runs that warm up: their figures don't count, their errors do. */
export const warmUpRound = -1
/** Far above any real run; a list of that length is made of it. */
const lastRound = 99_999

const finite = v.pipe(v.number(isNot('a number')), v.finite(isNot('a finite number')))

const wholeFrom = (from: number, to: number) =>
  wholeNumber(from, to, `a whole number from ${from} to ${to}`)

const oneOf = <const Options extends readonly string[]>(options: Options) =>
  v.picklist(options, isNot(`one of ${options.join(', ')}`))

const byName = <T extends v.BaseSchema<unknown, unknown, v.BaseIssue<unknown>>>(
  value: T,
) => v.record(text, value, isNot('an object'))

const leftOut = object({
  name: text,
  why: text,
  /** It should have worked: it did not start, or it died. */
  failed: v.exactOptional(v.literal(true, isNot('true'))),
})

/** Which part a target plays, for its colour and its place in a report. */
const targetKind = oneOf(['direct', 'floor', 'usher', 'peer', 'given'])

const target = object({
  name: text,
  /** What it is, in a few words. */
  title: text,
  kind: targetKind,
  /** How it was started; '' for the direct path. */
  command: text,
  /** Its configuration file, '' when it has none. */
  config: text,
})

const metric = object({
  /** Key in `Sample.figures`. */
  name: text,
  title: text,
  unit: text,
  better: oneOf(['higher', 'lower']),
  /** Decimals worth printing. */
  decimals: wholeFrom(0, 9),
})

/** What a target has to reach: a ratio to another's figure, or a figure. */
const goal = object({
  target: text,
  metric: text,
  /** Missing when the figure itself counts. */
  to: v.exactOptional(text),
  atLeast: v.exactOptional(finite),
  atMost: v.exactOptional(finite),
})

/** Cores kept busy within the window, by who did. */
const cores = object({
  generator: v.exactOptional(finite),
  backend: v.exactOptional(finite),
  /** Of those the process that was busiest; each has one thread that works. */
  busiestBackend: v.exactOptional(finite),
  proxy: v.exactOptional(finite),
  /** Programs that are not of the bench. */
  others: v.exactOptional(finite),
})

const sample = object({
  /** By the metric's name. */
  figures: byName(finite),
  /** Missing where the system doesn't tell. */
  cores: v.exactOptional(cores),
  /** What went wrong, by errno code or in words, and how often. */
  errors: byName(finite),
})

const round = wholeFrom(warmUpRound, lastRound)
const measured = object({ target: text, round, sample })
const failed = object({ target: text, round, failure: text })
/** What became of one run. */
const outcome = v.lazy(given =>
  isObject(given) && 'failure' in given ? failed : measured,
)

const scenario = object({
  name: text,
  /** Scenarios of one group stand together. */
  group: text,
  title: text,
  /** What the figure tells, in a sentence or two. */
  about: text,
  /** The first is the one that ratios are of and pictures show. */
  metrics: list(metric),
  /** What a reader has to know of this run of it, such as the rate that was offered. */
  notes: list(text),
  goals: list(goal),
  outcomes: list(outcome),
  leftOut: list(leftOut),
})

/** What figures depend on. */
const machine = object({
  cpus: finite,
  model: text,
  kernel: text,
  node: text,
  memoryBytes: finite,
})

const run = object({
  /** Changes when a reader of older files would go wrong. */
  format: v.literal(format),
  title: text,
  /** ISO 8601. */
  startedAt: text,
  seconds: finite,
  /** False when it was interrupted: what is there was measured, the rest was not. */
  complete: v.boolean(isNot('true or false')),
  /** The command line that repeats it. */
  command: text,
  machine,
  /** Programs by name, with their versions. */
  versions: byName(text),
  /** How it was measured, each as a name and a value in words. */
  setting: list(v.tuple([text, text], isNot('a name and a value'))),
  targets: list(target),
  /** Targets and parts of it that could not be measured here, and why. */
  leftOut: list(leftOut),
  /** Targets that the others are compared with, in the order of the columns. */
  yardsticks: list(text),
  scenarios: list(scenario),
})

/** What is read by a schema, and never changed. */
type Read<T> = T extends string | number | boolean | undefined
  ? T
  : { readonly [Key in keyof T]: Read<T[Key]> }

export type RunRecord = Read<v.InferOutput<typeof run>>
export type ScenarioRecord = Read<v.InferOutput<typeof scenario>>
export type TargetRecord = Read<v.InferOutput<typeof target>>
export type TargetKind = v.InferOutput<typeof targetKind>
export type LeftOut = Read<v.InferOutput<typeof leftOut>>
export type Metric = Read<v.InferOutput<typeof metric>>
export type Goal = Read<v.InferOutput<typeof goal>>
export type Outcome = Read<v.InferOutput<typeof outcome>>
export type Sample = Read<v.InferOutput<typeof sample>>
export type Cores = Read<v.InferOutput<typeof cores>>
export type Machine = Read<v.InferOutput<typeof machine>>

const metricOf =
  (better: Metric['better']) =>
  (name: string, title: string, unit: string, decimals: number): Metric => ({
    name,
    title,
    unit,
    better,
    decimals,
  })

/** A metric of which less is better. */
export const lower = metricOf('lower')

/** One of which more is better. */
export const higher = metricOf('higher')

/** As many faults as fit on a screen. */
const mostFaults = 5

/** A record as it is written to a file: figures that are no finite numbers are left out. */
export const recordText = (record: RunRecord): string =>
  `${JSON.stringify(record, withoutInfinite, 1)}\n`

const withoutInfinite = (_key: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? undefined : value

/**
 * Reads a results file back. Fields it doesn't know are ignored.
 * @param file - its name, for errors
 * @throws an Error that names the file and what is wrong in it
 */
export const parseRecord = (json: string, file: string): RunRecord => {
  const given = parsed(json, file)
  if (!isObject(given) || !('format' in given))
    throw new Error(`${file}: not a results file of usher bench`)
  if (given['format'] !== format)
    throw new Error(
      `${file}: format ${show(given['format'])}: this version of Usher reads '${format}'`,
    )
  const result = v.safeParse(run, given)
  if (result.success) return result.output
  const faults = result.issues
    .map(faultOf)
    .map(fault => `${fault.field} ${fault.message}`)
  const shown = faults.slice(0, mostFaults).join('; ')
  const more = faults.length - mostFaults
  throw new Error(`${file}: ${shown}${more > 0 ? `; and ${more} more` : ''}`)
}

const parsed = (json: string, file: string): unknown => {
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new Error(`${file}: not JSON: ${(error as Error).message}`, { cause: error })
  }
}

const isObject = (given: unknown): given is Readonly<Record<string, unknown>> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)
