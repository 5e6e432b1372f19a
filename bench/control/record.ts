import {
  type Goal,
  lower,
  type Outcome,
  type Sample,
  type ScenarioRecord,
} from '../record/record.ts'

/** The name of Usher as a process, the target of most that is measured here. */
export const usherName = 'usher'

/** Is told what is going on. */
export type Say = (what: string) => void

/** Takes scenarios as they are done. */
export type Take = (scenarios: readonly ScenarioRecord[]) => void

/** A figure of which less is better: its value where there is one, and what it is held to. */
export type Row = readonly [
  name: string,
  title: string,
  unit: string,
  decimals: number,
  value: number | undefined,
  atMost?: number | undefined,
]

type Own = Pick<ScenarioRecord, 'name' | 'group' | 'title'> & Partial<ScenarioRecord>

/** A scenario in which one target has one set of figures. */
export const told = (
  own: Own,
  rows: readonly Row[],
  { cores, errors = {} }: Partial<Sample> = {},
  target = usherName,
): ScenarioRecord => {
  const known = rows.filter(([, , , , value]) => value !== undefined)
  const figures = Object.fromEntries(
    known.map(([name, , , , value]) => [name, value ?? 0]),
  )
  return toldByRounds(
    {
      outcomes: [
        { target, round: 0, sample: { figures, ...(cores && { cores }), errors } },
      ],
      ...own,
    },
    rows,
    target,
  )
}

/** The same without outcomes; values are of no meaning. */
export const toldByRounds = (
  own: Own,
  rows: readonly Row[],
  target = usherName,
): ScenarioRecord => ({
  about: '',
  notes: [],
  leftOut: [],
  metrics: rows.map(([name, title, unit, decimals]) =>
    lower(name, title, unit, decimals),
  ),
  goals: rows.flatMap(([metric, , , , , atMost]): readonly Goal[] =>
    atMost === undefined ? [] : [{ target, metric, atMost }],
  ),
  outcomes: [],
  ...own,
})

export const roundsOf = (
  target: string,
  rounds: readonly Sample['figures'][],
): readonly Outcome[] =>
  rounds.map((figures, round) => ({ target, round, sample: { figures, errors: {} } }))

/** How long something that was done many times took; without values a goal is not measured. */
export const percentileRows = (
  values: readonly number[],
  mostOfP99?: number,
): readonly Row[] => [
  ['p99', '99 of 100', 'ms', 1, quantile(values, 0.99), mostOfP99],
  ['p50', 'Median', 'ms', 1, quantile(values, 0.5)],
  ['max', 'Longest', 'ms', 1, quantile(values, 1)],
]

/** The value below which a share of all lie; undefined when there are none. */
export const quantile = (
  values: readonly number[],
  share: number,
): number | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

/** `12,345`. */
export const count = (n: number): string => n.toLocaleString('en-US')
