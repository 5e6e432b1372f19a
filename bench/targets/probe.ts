import { benchProgram, startChild } from '../process/child.ts'
import type { Place } from '../topology/topology.ts'
import { answerProbe, type Probed, type ProbeQuestion } from './answer-probe.ts'

/** Beyond the time that it is given; a process takes a moment to start. */
const graceMs = 60_000

export interface Wait {
  /** Milliseconds. */
  readonly within: number
  /** Aborted when there is nothing to wait for any more. */
  readonly ended: AbortSignal
}

/**
 * Waits until clients in `place` are served at all of `addresses`: '' when they are, else
 * why not, as the end of a sentence about the one who serves.
 */
export const awaitServing = async (
  place: Pick<Place, 'enter'>,
  addresses: readonly Probed[],
  { within, ended }: Wait,
): Promise<string> => {
  const question: ProbeQuestion = { kind: 'serving', addresses, withinMs: within }
  const late = await askIn(place, question, within + graceMs, ended)
  if (late === 'ended') return late
  if (late.length === 0) return ''
  const names = late.slice(0, 5).join(', ')
  const more = late.length > 5 ? ` and ${late.length - 5} more` : ''
  return `did not serve ${names}${more} within ${within} ms`
}

/** So many ports of `address` that are free in `place`. Rejects when there are fewer. */
export const freePorts = async (
  place: Pick<Place, 'enter'>,
  address: string,
  count: number,
): Promise<readonly number[]> => {
  const question: ProbeQuestion = { kind: 'free-ports', address, count }
  const never = new AbortController().signal
  return (await askIn(place, question, graceMs, never)) as readonly number[]
}

/** What is written at `url`, as seen from `place`, without white space around it. */
export const pageIn = async (
  place: Pick<Place, 'enter'>,
  url: string,
): Promise<string> => {
  const never = new AbortController().signal
  const [text] = await askIn(place, { kind: 'page', url }, graceMs, never)
  return String(text ?? '')
}

/** By a process that enters the place, where that isn't this process' own. */
const askIn = async (
  { enter }: Pick<Place, 'enter'>,
  question: ProbeQuestion,
  timeoutMs: number,
  ended: AbortSignal,
): Promise<'ended' | readonly (string | number)[]> => {
  const over = abortOf(ended)
  if (enter.length === 0) return Promise.race([over, answerProbe(question, ended)])
  const child = startChild(benchProgram('targets/probe-main'), enter)
  const answer = child.ask(question, timeoutMs) as Promise<readonly string[]>
  try {
    return await Promise.race([over, answer])
  } finally {
    // Stopped before it has answered it rejects, which is not read any more.
    answer.catch(() => undefined)
    await child.stop()
  }
}

const abortOf = (signal: AbortSignal): Promise<'ended'> =>
  new Promise(resolve => {
    const ended = (): void => resolve('ended')
    signal.addEventListener('abort', ended, { once: true })
    if (signal.aborted) ended()
  })
