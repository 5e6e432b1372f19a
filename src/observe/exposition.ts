import { setImmediate } from 'node:timers/promises'

/** One line of a metric family. */
export interface Sample {
  /** Follows the family's name: `_bucket`, or '' for none. */
  readonly suffix: string
  /** As `labelText` makes it. */
  readonly labels: string
  readonly value: number
}

/** A metric family whose values are read from `T` when somebody asks. */
export interface Family<T> {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  samples(source: T): Iterable<Sample>
}

/** A family that knows where its values are. */
export type OwnFamily = Family<undefined>

/** Lines that are written before the event loop gets its turn: well under 1 ms. */
const linesPerPage = 1000

const special = /[\\"\n]/

const escaped = (value: string): string =>
  special.test(value)
    ? value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
    : value

/** `service_port="default/web:http",protocol="TCP"`. */
export const labelText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',')

const numberText = (value: number): string => {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

function* linesOf<T>(families: readonly Family<T>[], source: T): Generator<string> {
  for (const family of families) {
    yield `# HELP ${family.name} ${family.help}\n# TYPE ${family.name} ${family.type}\n`
    for (const { suffix, labels, value } of family.samples(source)) {
      const braces = labels === '' ? '' : `{${labels}}`
      yield `${family.name}${suffix}${braces} ${numberText(value)}\n`
    }
  }
}

/**
 * Writes families in Prometheus' text format 0.0.4, as pages in order. Between pages the
 * event loop runs: with 10 000 ServicePorts there are 200 000 lines, and connections
 * must not wait for all of them.
 */
export const writeFamilies = async <T>(
  families: readonly Family<T>[],
  source: T,
): Promise<Buffer[]> => {
  const pages: Buffer[] = []
  let page = ''
  let lines = 0
  for (const line of linesOf(families, source)) {
    page += line
    lines += 1
    if (lines < linesPerPage) continue
    pages.push(Buffer.from(page))
    page = ''
    lines = 0
    await setImmediate()
  }
  pages.push(Buffer.from(page))
  return pages
}
