import type { Results, Verdict } from './specs.ts'

/** A spec that is not to pass: why. */
export interface Expected {
  readonly spec: string
  /** Names of ways; all without it. */
  readonly ways?: readonly string[]
  readonly verdict: Verdict
  readonly why: string
}

export type ResultsByWay = ReadonlyMap<string, Results>

const letters = { passed: 'P', failed: 'F', skipped: 'S' } as const

const verdictExpected = (
  expected: readonly Expected[],
  spec: string,
  way: string,
): Verdict =>
  expected.find(one => one.spec === spec && (one.ways?.includes(way) ?? true))?.verdict ??
  'passed'

/** Rows of spec and way that are other than expected, in words. */
export const surprises = (
  results: ResultsByWay,
  expected: readonly Expected[],
): readonly string[] =>
  Array.from(results, ([way, specs]) => {
    if (specs.size === 0) return [`${way}: no spec ran`]
    return Array.from(specs, ([spec, { verdict, message }]) => {
      const wanted = verdictExpected(expected, spec, way)
      if (verdict === wanted) return []
      const why = message === '' ? '' : `: ${message.slice(0, 500).replaceAll('\n', ' ')}`
      return [`${way}: ${spec}: ${verdict}, expected: ${wanted}${why}`]
    }).flat()
  }).flat()

/** All specs in one table of Markdown, and how many of each verdict. */
export const tableOf = (results: ResultsByWay, expected: readonly Expected[]): string => {
  const names = [...results.keys()]
  const specs = new Set(
    Array.from(results.values(), one => Array.from(one.keys())).flat(),
  )
  const cell = (spec: string, way: string): string => {
    const verdict = results.get(way)?.get(spec)?.verdict
    if (verdict === undefined) return '-'
    const letter = letters[verdict]
    return verdict === verdictExpected(expected, spec, way) ? letter : `**${letter}**`
  }
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const count = (way: string): string => {
    const all = [...(results.get(way)?.values() ?? [])]
    const of = (verdict: Verdict): number =>
      all.filter(one => one.verdict === verdict).length
    return `${of('passed')} P, ${of('failed')} F, ${of('skipped')} S`
  }
  return [
    row(['spec', ...names]),
    row(['---', ...names.map(() => '---')]),
    ...[...specs]
      .toSorted()
      .map(spec => row([spec, ...names.map(way => cell(spec, way))])),
    row(['all', ...names.map(count)]),
  ].join('\n')
}
