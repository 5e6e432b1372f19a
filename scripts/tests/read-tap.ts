import { once } from 'node:events'
import { Parser, type Result } from 'tap-parser'

export interface Failure {
  /** The tests that it is in, and what was said of it. */
  readonly name: string
  /** Where, what was expected and found; as tap tells it. */
  readonly diag: Readonly<Record<string, unknown>>
}

export interface Skip {
  readonly name: string
  readonly why: string
}

/** Assertions of all depths. */
export interface Assertions {
  readonly passed: number
  readonly failures: readonly Failure[]
  readonly skips: readonly Skip[]
  /** What is wrong with the output as a whole: tests were planned that never ran. */
  readonly complaints: readonly string[]
}

/** What the parser makes of an output without any. */
const nothingFound = 'no tests found'

/** Reads what one test file printed (TAP 14), also when it broke off. */
export const readTap = async (text: string): Promise<Assertions> => {
  let passed = 0
  const failures: Failure[] = []
  const skips: Skip[] = []
  const parser = new Parser({})
  parser.on('result', ({ fullname, ok, skip, todo, diag }: Result) => {
    const why = skip || todo
    if (why) skips.push({ name: fullname, why: why === true ? '' : why })
    else if (ok) passed += 1
    else failures.push({ name: fullname, diag: (diag ?? {}) as Failure['diag'] })
  })
  const complete = once(parser, 'complete')
  parser.end(text)
  await complete
  const { skipAll, skipReason } = parser.results?.plan ?? {}
  if (skipAll === true && skipReason && skipReason !== nothingFound)
    skips.push({ name: 'all of it', why: skipReason })
  const complaints = parser.failures.flatMap(one =>
    'tapError' in one && one.tapError ? [one.tapError] : [],
  )
  return { passed, failures, skips, complaints }
}
