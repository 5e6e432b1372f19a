import * as v from 'valibot'
import { list, object, text } from '../../src/source/decode/fields.ts'
import { show } from '../../src/util/printable.ts'
import { faultOf } from '../../src/source/decode/problem.ts'
import type { RunRecord } from './record.ts'

const format = 'usher-bench/1' satisfies RunRecord['format']

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

const isNot =
  (right: string) =>
  ({ input }: { readonly input: unknown }): string =>
    `${show(input)} is not ${right}`

const finite = v.pipe(v.number(isNot('a number')), v.finite(isNot('a finite number')))

const wholeNumber = (from: number, to: number) => {
  const message = isNot(`a whole number from ${from} to ${to}`)
  return v.pipe(
    v.number(message),
    v.check(n => Number.isInteger(n) && n >= from && n <= to, message),
  )
}

const oneOf = <const Options extends readonly string[]>(options: Options) =>
  v.picklist(options, isNot(`one of ${options.join(', ')}`))

const yesOrNo = v.boolean(isNot('true or false'))

const byName = <T extends v.BaseSchema<unknown, unknown, v.BaseIssue<unknown>>>(
  value: T,
) => v.record(text, value, isNot('an object'))

const leftOut = list(
  object({
    name: text,
    why: text,
    failed: v.exactOptional(v.literal(true, isNot('true'))),
  }),
)

const target = object({
  name: text,
  title: text,
  kind: oneOf(['direct', 'floor', 'usher', 'peer', 'given']),
  command: text,
  config: text,
})

const metric = object({
  name: text,
  title: text,
  unit: text,
  better: oneOf(['higher', 'lower']),
  decimals: wholeNumber(0, 9),
})

const goal = object({
  target: text,
  metric: text,
  to: v.exactOptional(text),
  atLeast: v.exactOptional(finite),
  atMost: v.exactOptional(finite),
})

const cores = object({
  generator: v.exactOptional(finite),
  backend: v.exactOptional(finite),
  busiestBackend: v.exactOptional(finite),
  proxy: v.exactOptional(finite),
  others: v.exactOptional(finite),
})

const sample = object({
  figures: byName(finite),
  cores: v.exactOptional(cores),
  errors: byName(finite),
})

/** The highest is far above any real run; a list of that length is made of it. */
const round = wholeNumber(-1, 99_999)
const measured = object({ target: text, round, sample })
const failed = object({ target: text, round, failure: text })
const outcome = v.lazy(given =>
  isObject(given) && 'failure' in given ? failed : measured,
)

const scenario = object({
  name: text,
  group: text,
  title: text,
  about: text,
  metrics: list(metric),
  notes: list(text),
  goals: list(goal),
  outcomes: list(outcome),
  leftOut,
})

const run = object({
  format: v.literal(format),
  title: text,
  startedAt: text,
  seconds: finite,
  complete: yesOrNo,
  command: text,
  machine: object({
    cpus: finite,
    model: text,
    kernel: text,
    node: text,
    memoryBytes: finite,
  }),
  versions: byName(text),
  setting: list(v.tuple([text, text], isNot('a name and a value'))),
  targets: list(target),
  leftOut,
  yardsticks: list(text),
  scenarios: list(scenario),
})
