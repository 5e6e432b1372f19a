import { benchProgram, startChild } from '../process/child.ts'
import type { Place } from './topology.ts'

/** For the process that tries. */
export interface ReachQuestion {
  readonly addresses: readonly string[]
  readonly port: number
  readonly timeoutMs: number
}

/** discard: without a listener, and a refusal is an answer. */
const port = 9
const timeoutMs = 3000
/** What starting the process may take on a busy machine. */
const startMs = 20_000

/** Tries from `place` whether there is a way to all of `addresses`; gives those without. */
export const unreachable = async (
  place: Place,
  addresses: readonly string[],
): Promise<readonly string[]> => {
  const child = startChild(benchProgram('topology/reach-main'), place.enter)
  try {
    const question: ReachQuestion = { addresses, port, timeoutMs }
    return (await child.ask(question, startMs + timeoutMs)) as readonly string[]
  } finally {
    await child.stop()
  }
}
