import { readdirSync, readlinkSync } from 'node:fs'
import type { RelayProcess } from '../support/relay-process.ts'
import { until } from '../support/until.ts'

/** Pipes for splice(2) that a worker may keep for the next who needs one, and their ends. */
const mostKeptPipeEnds = 2 * 16

/** Of a relay's process, apart from the pipes that it keeps. */
export interface Descriptors {
  readonly others: number
  readonly pipes: number
}

export const openDescriptors = (pid: number): Descriptors => {
  const targets = readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch {
      return []
    }
  })
  const pipes = targets.filter(target => target.startsWith('pipe:')).length
  return { others: targets.length - pipes, pipes }
}

/** What is open beyond what was, '' when that is nothing. */
export const leak = (
  before: Descriptors,
  after: Descriptors,
  workers: number,
): string => {
  if (after.others !== before.others)
    return `${before.others} descriptors have become ${after.others}`
  return after.pipes > before.pipes + workers * mostKeptPipeEnds
    ? `${before.pipes} ends of pipes have become ${after.pipes}`
    : ''
}

/** Waits until no connection and no flow is left. */
export const untilQuiet = async (relay: RelayProcess, ms = 20_000): Promise<void> => {
  const active = async (): Promise<number> => {
    const { listeners } = await relay.stats()
    return [...listeners].reduce((sum, { counters }) => sum + counters.active, 0)
  }
  await until('no connection or flow is left', async () => (await active()) === 0, ms)
}
