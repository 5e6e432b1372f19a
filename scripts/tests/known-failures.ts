import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { Failure } from './read-tap.ts'
import type { FileResult } from './run-test-process.ts'

/** By the reason why they fail: files, with the names of their tests. */
type KnownFailures = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>

export const readKnownFailures = (path: string): KnownFailures =>
  parse(readFileSync(path, 'utf8')) as KnownFailures

/**
 * What is known to fail counts as skipped, with the reason; one that is known to fail and has
 * not is a failure: the list says no more than what is so.
 */
export const withoutKnown = (result: FileResult, known: KnownFailures): FileResult => {
  let { failures } = result
  const skips = [...result.skips]
  for (const [why, files] of Object.entries(known))
    for (const test of files[result.file] ?? []) {
      const isOfIt = ({ name }: Failure): boolean =>
        name === test || name.startsWith(`${test} > `)
      if (failures.some(isOfIt)) skips.push({ name: test, why: `known to fail: ${why}` })
      const surprise = {
        name: test,
        diag: { why: `known to fail (${why}), and has not` },
      }
      failures = failures.some(isOfIt)
        ? failures.filter(failure => !isOfIt(failure))
        : [...failures, surprise]
    }
  return { ...result, failures, skips }
}
