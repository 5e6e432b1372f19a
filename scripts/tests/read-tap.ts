import { once } from 'node:events'
import { Parser, type Result } from 'tap-parser'
import { markOf } from './marks.ts'

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

/** Assertions of one file, of all depths. */
export interface Assertions {
  readonly passed: number
  readonly failures: readonly Failure[]
  readonly skips: readonly Skip[]
  /** How long it took; undefined when it did not come to its end. */
  readonly ms: number | undefined
}

export interface Tap {
  /** In the order in which they began. */
  readonly files: ReadonlyMap<string, Assertions>
  /** What is wrong with the output as a whole: tests were planned that never ran. */
  readonly complaints: readonly string[]
}

interface Counting {
  passed: number
  readonly failures: Failure[]
  readonly skips: Skip[]
  ms: number | undefined
}

/** Reads what a process with tests printed (TAP 14), also when it broke off. */
export const readTap = async (text: string): Promise<Tap> => {
  const files = new Map<string, Counting>()
  let current: Counting | undefined
  const parser = new Parser({})
  parser.on('comment', line => {
    const mark = markOf(line)
    if (mark === undefined) return
    current = files.get(mark.file) ?? {
      passed: 0,
      failures: [],
      skips: [],
      ms: undefined,
    }
    current.ms = mark.ms
    files.set(mark.file, current)
  })
  parser.on('result', ({ fullname, ok, skip, todo, diag }: Result) => {
    if (current === undefined) return
    const why = skip || todo
    if (why) current.skips.push({ name: fullname, why: why === true ? '' : why })
    else if (ok) current.passed += 1
    else current.failures.push({ name: fullname, diag: (diag ?? {}) as Failure['diag'] })
  })
  const complete = once(parser, 'complete')
  parser.end(text)
  await complete
  const complaints = parser.failures.flatMap(one =>
    'tapError' in one && one.tapError ? [one.tapError] : [],
  )
  return { files, complaints }
}
