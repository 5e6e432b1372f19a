import { setTimeout as sleep } from 'node:timers/promises'
import { openIdle } from '../load/idle.ts'
import { ErrorCounts } from '../load/load.ts'
import { readUsage } from '../process/usage.ts'
import type { Run, Sample, Scenario } from './scenario.ts'

const connections = 4000
const warmUpAtOnce = 64
/** For a proxy to close what was closed, and to come to rest. */
const settleMs = 800

/**
 * Growth of the proxy's resident memory over idle connections. As many were opened and
 * closed before, so that what a process needs once (compiled code, a young generation of
 * full size) is not booked on them; but only a few at once, for otherwise the idle ones
 * would find their memory in what the others left free.
 */
const measureIdle = async ({ port, pids }: Run): Promise<Sample> => {
  const fresh = residentBytes(pids.proxy)
  const errors: Sample['errors'][] = []
  for (let closed = 0; closed < connections; closed += warmUpAtOnce) {
    const warmUp = await openIdle(port, warmUpAtOnce)
    await warmUp.close()
    errors.push(warmUp.errors)
  }
  await sleep(settleMs)
  const before = residentBytes(pids.proxy)
  const idle = await openIdle(port, connections)
  await sleep(settleMs)
  const after = residentBytes(pids.proxy)
  await idle.close()
  errors.push(idle.errors)
  if (idle.opened === 0)
    throw new Error(`no connection could be opened: ${JSON.stringify(idle.errors)}`)
  return {
    value: (after - before) / idle.opened / 1000,
    aside: (after - fresh) / idle.opened / 1000,
    errors: sumOf(errors),
  }
}

const residentBytes = (pid: number | undefined): number => {
  const usage = pid === undefined ? undefined : readUsage(pid)
  if (usage === undefined) throw new Error('resident memory is read from /proc: not here')
  return usage.rssBytes
}

const sumOf = (parts: readonly Sample['errors'][]): Sample['errors'] => {
  const sum = new ErrorCounts()
  for (const part of parts)
    for (const [name, times] of Object.entries(part)) sum.add(name, times)
  return sum.counts
}

export const idleMemory: Scenario = {
  name: 'idle-memory',
  title: `user memory of the proxy per idle connection, over ${connections} of them`,
  unit: 'kB/conn',
  decimals: 1,
  aside: 'counted from its start, so with what it needs only once',
  backend: 'echo',
  goal: { kind: 'value', atMost: 12 },
  needsProxy: true,
  freshProxy: true,
  expectedSeconds: () => 6,
  run: measureIdle,
}
