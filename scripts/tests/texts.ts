import { stringify } from 'yaml'
import type { Failure } from './read-tap.ts'
import type { FileResult } from './run-test-process.ts'

/** Why a file failed as a whole, beside its assertions; '' when it did not. */
const wholeFailure = ({ ended, failures, passed, skips }: FileResult): string => {
  if (ended !== '') return ended
  return passed + failures.length + skips.length === 0 ? 'it tested nothing' : ''
}

const failedOf = (result: FileResult): number =>
  result.failures.length + (wholeFailure(result) === '' ? 0 : 1)

/** A line; and everything that is to be known of what failed. */
export const textOfFile = (result: FileResult): string => {
  const { file, ms, passed, failures, skips, stderr } = result
  const failed = failedOf(result)
  const counts = [
    `${passed} passed`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skips.length > 0 ? [`${skips.length} skipped`] : []),
  ]
  const mark = failed > 0 ? 'FAILED' : 'ok    '
  const line = `${mark} ${file}  ${secondsOf(ms)}  ${counts.join(', ')}`
  if (failed === 0) return [line, ...warnings(stderr).map(indented)].join('\n')
  const whole = wholeFailure(result)
  return [
    line,
    ...failures.map(failure => indented(textOfFailure(file, failure))),
    ...(whole === '' ? [] : [indented(`not ok: ${file}: ${whole}`)]),
    ...(stderr.trim() === '' ? [] : [indented(`on stderr:\n${indented(stderr)}`)]),
  ].join('\n')
}

const textOfFailure = (file: string, { name, diag }: Failure): string => {
  const { diff, stack, at, source, ...more } = diag
  const blocks = {
    'expected (-) and found (+)': diff,
    at: at === undefined ? undefined : placeOf(at),
    stack,
    source,
    ...more,
  }
  const lines = Object.entries(blocks).flatMap(([what, value]) => {
    if (value === undefined || value === null || value === '') return []
    const words = (typeof value === 'string' ? value : stringify(value, brief)).trimEnd()
    return [words.includes('\n') ? `${what}:\n${indented(words)}` : `${what}: ${words}`]
  })
  return [`not ok: ${file}: ${name}`, ...lines.map(indented)].join('\n')
}

/** Of what a file still waited for, not what might become of it. */
const brief = (name: unknown, value: unknown): unknown =>
  name === 'events' ? undefined : value

const placeOf = (at: unknown): string => {
  if (typeof at !== 'object' || at === null) return String(at)
  const { fileName, lineNumber, columnNumber } = at as Readonly<Record<string, unknown>>
  return [fileName, lineNumber, columnNumber].join(':')
}

/** Shown for files that pass, too: Node's own, of what will not work for ever. */
const warnings = (stderr: string): readonly string[] =>
  stderr.split('\n').filter(line => /\(node:\d+\) .*Warning/.test(line))

/** What was not tried and why, what took longest, and where all of it can be read. */
export const textOfRun = (
  results: readonly FileResult[],
  tookS: number,
  report: string,
): string => {
  const skips = new Map<string, number>()
  for (const { file, skips: ofFile } of results)
    for (const { why } of ofFile) {
      const what = `skipped in ${file}: ${why}`
      skips.set(what, (skips.get(what) ?? 0) + 1)
    }
  const slowest = results
    .toSorted((a, b) => (b.ms ?? 0) - (a.ms ?? 0))
    .slice(0, 5)
    .map(({ file, ms }) => `${file} ${secondsOf(ms)}`)
  const failed = results.filter(result => failedOf(result) > 0).map(({ file }) => file)
  return [
    '',
    ...Array.from(skips, ([what, count]) => `${what} (${count})`),
    `slowest: ${slowest.join(', ')}`,
    ...(failed.length > 0 ? [`failed: ${failed.join(', ')}`] : []),
    `${results.length} files in ${seconds(tookS)}; all that they said: ${report}`,
  ].join('\n')
}

/** The plain line at the very end. */
export const sumLine = (
  results: readonly FileResult[],
): { readonly line: string; readonly ok: boolean } => {
  const sum = (of: (result: FileResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0)
  const [passed, failed] = [sum(({ passed: count }) => count), sum(failedOf)]
  const skipped = sum(({ skips }) => skips.length)
  const line = `${passed} passed, ${failed} failed, ${skipped} skipped`
  return { line, ok: passed > 0 && failed === 0 }
}

const seconds = (s: number): string => `${s.toFixed(1)} s`

const secondsOf = (ms: number | undefined): string =>
  ms === undefined ? '-' : seconds(ms / 1000)

const indented = (words: string): string => words.trimEnd().replaceAll(/^/gm, '  ')
