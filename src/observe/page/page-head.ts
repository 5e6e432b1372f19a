import { count, heardText } from '../../page/format.ts'
import type { Head, Tick } from '../../page/wire.ts'
import type { ProcessFigures } from '../process-metrics.ts'
import type { StatusInput } from '../status-document.ts'

/** Listed on the page. */
const mostProblems = 50

/** What stands above the table. */
export const pageHead = (input: StatusInput): Head => {
  const { draining, health, source, problems } = input
  return {
    verdict: draining ? 'Draining' : health.healthy ? 'Healthy' : 'Not healthy',
    why: health.reasons,
    about: about(input),
    source: { name: source.name, error: source.error },
    counted: countedOf(input),
    problems: problems
      .slice(0, mostProblems)
      .map(({ object, field, message }) =>
        [`${object}${field === '' ? '' : ` ${field}`}`, message].join(': '),
      ),
    problemCount: problems.length,
  }
}

/** `Usher 0.1.0, userspace mode, linux relay with 2 workers, node n1`. */
const about = ({ mode, relay, node, version }: StatusInput): string =>
  [
    `Usher ${version}`,
    `${mode.name} mode`,
    ...(relay === undefined ? [] : [relayText(relay)]),
    ...(node === undefined ? [] : [`node ${node.name}`]),
  ].join(', ')

const relayText = ({ name, workers }: NonNullable<StatusInput['relay']>): string =>
  `${name} relay${name === 'portable' ? '' : ` with ${count(workers, 'worker')}`}`

const countedOf = ({ mode, relay }: StatusInput): Head['counted'] => {
  if (mode.name === 'userspace') return 'all'
  return relay === undefined ? 'none' : 'some'
}

/** For a browser without JavaScript, and until the first figures are there. */
export const healthSentence = (input: StatusInput, now: number): string => {
  const { verdict, why, about: rest } = pageHead(input)
  const { name, lastGoodAt } = input.source
  const reasons = why.length === 0 ? '' : `: ${why.join('; ')}`
  return `${verdict}${reasons}. ${rest}; ${heardText(name, lastGoodAt, now)}.`
}

const ms = (seconds: number | undefined): number =>
  Math.round((seconds ?? 0) * 10_000) / 10

/** Figures of a moment. */
export const pageTick = (
  input: StatusInput,
  figures: ProcessFigures,
  look: Pick<Tick, 'at' | 'now' | 'failedListeners'>,
): Tick => {
  const { startedAt, stats, health, source } = input
  const { fds, acceptPaused, workers = [], restarts = 0 } = stats
  return {
    ...look,
    startedAt,
    heardAt: source.lastGoodAt ?? null,
    appliedAt: health.lastUpdated ?? null,
    fds,
    acceptPaused,
    openFds: figures.openFds ?? null,
    lateMs: ms(new Map(figures.delays).get(1)),
    busy: Math.round(figures.utilization * 1000) / 1000,
    memory: figures.memory.rss,
    workers: workers.map(({ thread, restarts: again, hangs, heldBytes }) => ({
      thread,
      restarts: again,
      hangs,
      heldBytes,
    })),
    restarts,
  }
}
