import { knownMetrics } from './known-metrics.ts'

/** Made by Prometheus itself. */
const ofPrometheus = new Set(['up'])

/** What scraping adds to each sample: pod-monitor.ts and docs/operating.md. */
const targetLabels = ['job', 'instance', 'container']

const words = new Set(['and', 'or', 'unless', 'bool'])

const string = /"(?:[^"\\]|\\.)*"/g
const matchers = /\{([^}]*)\}/g
const range = /\[[^\]]*\]/g
const grouping = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g
const name = /\b[a-zA-Z_:][\w:]*\b(?!\s*\()/g

/** What an expression of PromQL names. */
export const namesIn = (
  expr: string,
): { readonly metrics: readonly string[]; readonly labels: readonly string[] } => {
  const labels: string[] = []
  const collect = (_: string, list: string): string => {
    labels.push(...Array.from(list.matchAll(name), ([label]) => label))
    return ' '
  }
  const rest = expr
    .replaceAll(string, ' ')
    .replaceAll(matchers, collect)
    .replaceAll(grouping, collect)
    .replaceAll(range, ' ')
  const metrics = Array.from(rest.matchAll(name), ([found]) => found)
  return { metrics: metrics.filter(found => !words.has(found)), labels }
}

/** The row that a name of a sample belongs to. */
export const metricOf = (sample: string) => {
  const whole = knownMetrics.get(sample.replace(/_(?:bucket|sum|count)$/, ''))
  return whole?.type === 'histogram' ? whole : knownMetrics.get(sample)
}

/**
 * What is wrong with the names in an expression: metrics that Usher does not have, and labels that none of
 * its metrics has. `recorded` are names of recording rules.
 */
export const faultsOf = (expr: string, recorded: ReadonlySet<string>): string[] => {
  const { metrics, labels } = namesIn(expr)
  const unknown = metrics.filter(
    each => !ofPrometheus.has(each) && !recorded.has(each) && !metricOf(each),
  )
  const theirs = metrics.flatMap(each => {
    const row = metricOf(each)
    return [...(row?.labels ?? []), ...(row?.type === 'histogram' ? ['le'] : [])]
  })
  const strange = labels.filter(each => ![...targetLabels, ...theirs].includes(each))
  return [
    ...unknown.map(each => `no metric ${each}`),
    ...strange.map(each => `no label ${each} in: ${expr}`),
    ...(metrics.length === 0 ? [`no metric in: ${expr}`] : []),
  ]
}
