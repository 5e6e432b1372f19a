import { setImmediate } from 'node:timers/promises'

/** A histogram as plain counts: one for each upper bound, and one for what is above all. */
export interface Histogram {
  /** Ascending. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  readonly sum: number
}

/** Values of the labels, in the order of `Metric.labels`, and what is measured. */
export type Sample = readonly [labels: readonly string[], value: number | Histogram]

/** One row of the table of metrics: its values are read from `T` at each scrape. */
export interface Metric<T> {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  /** Names, in the order in which they are printed. */
  readonly labels: readonly string[]
  /** A number stands for one sample without labels, undefined for no sample. */
  read(from: T): Iterable<Sample> | number | undefined
}

/** A metric with what its values are read from. */
export type BoundMetric = Metric<undefined>

type MakeMetric = <T>(
  name: string,
  help: string,
  read: Metric<T>['read'],
  labels?: Metric<T>['labels'],
) => Metric<T>

const ofType =
  (type: Metric<unknown>['type']): MakeMetric =>
  (name, help, read, labels = []) => ({ name, type, help, labels, read })

export const counter = ofType('counter')
export const gauge = ofType('gauge')
export const histogram = ofType('histogram')

export const bindMetrics = <T>(
  metrics: readonly Metric<T>[],
  from: T,
): readonly BoundMetric[] =>
  metrics.map(metric => ({ ...metric, read: () => metric.read(from) }))

export const samplesOf = <T>(metric: Metric<T>, from: T): Iterable<Sample> => {
  const read = metric.read(from)
  if (read === undefined) return []
  return typeof read === 'number' ? [[[], read]] : read
}

/** Characters that are written before the event loop gets its turn: about 1 ms. */
const pageChars = 64 * 1024

const special = /[\\"\n]/

const escaped = (value: string): string =>
  special.test(value)
    ? value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
    : value

/** `service_port="default/web:http",protocol="TCP"`. */
const labelText = (names: readonly string[], values: readonly string[]): string => {
  let text = ''
  for (let i = 0; i < names.length; i++)
    text += `${i === 0 ? '' : ','}${names[i]}="${escaped(values[i] ?? '')}"`
  return text
}

const numberText = (value: number): string => {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

const line = (name: string, labels: string, value: number): string =>
  `${name}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}\n`

/** Prometheus wants each bucket to hold the smaller ones too. */
const histogramLines = (
  name: string,
  labels: string,
  { bounds, counts, sum }: Histogram,
): string => {
  const comma = labels === '' ? '' : ','
  let text = ''
  let total = 0
  for (let i = 0; i <= bounds.length; i++) {
    total += counts[i] ?? 0
    const le = i < bounds.length ? bounds[i] : '+Inf'
    text += line(`${name}_bucket`, `${labels}${comma}le="${le}"`, total)
  }
  return `${text}${line(`${name}_sum`, labels, sum)}${line(`${name}_count`, labels, total)}`
}

/** The lines of one sample at a time. */
function* linesOf<T>(metrics: readonly Metric<T>[], from: T): Generator<string> {
  for (const metric of metrics) {
    const { name, type, help, labels } = metric
    yield `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
    for (const [values, value] of samplesOf(metric, from)) {
      const text = labelText(labels, values)
      yield typeof value === 'number'
        ? line(name, text, value)
        : histogramLines(name, text, value)
    }
  }
}

/**
 * Writes metrics in Prometheus' text format 0.0.4, as pages in order. Between pages the
 * event loop runs: with 10 000 ServicePorts there are 200 000 lines, and connections
 * must not wait for all of them.
 */
export const writeMetrics = async <T>(
  metrics: readonly Metric<T>[],
  from: T,
): Promise<Buffer[]> => {
  const pages: Buffer[] = []
  let page = ''
  for (const text of linesOf(metrics, from)) {
    page += text
    if (page.length < pageChars) continue
    pages.push(Buffer.from(page))
    page = ''
    await setImmediate()
  }
  pages.push(Buffer.from(page))
  return pages
}

/** A histogram that is added to value by value. */
export class PlainHistogram implements Histogram {
  readonly bounds: readonly number[]
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    const bucket = this.bounds.findIndex(bound => value <= bound)
    const index = bucket === -1 ? this.bounds.length : bucket
    this.counts[index] = (this.counts[index] ?? 0) + 1
    this.sum += value
  }
}
