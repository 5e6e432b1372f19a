import type { Metric } from '../record/record.ts'
import { sampleOf } from './metrics.ts'
import { type Run, type Scenario, notGivenReason } from './scenario.ts'

const connections = 4000

const kilobytes = (name: string, title: string): Metric => ({
  name,
  title,
  unit: 'kB/conn',
  better: 'lower',
  decimals: 1,
})

const memoryOf = async (run: Run) => {
  const traffic = { kind: 'idle', path: '/64', connections } as const
  const answer = await run.load({ ...traffic, to: run.to('http') })
  if (answer.memory === undefined) throw new Error('memory is read from /proc: not here')
  return { answer, memory: answer.memory }
}

export const idle: Scenario = {
  name: 'idle',
  group: 'idle',
  title: `memory for each of ${connections} connections that have nothing to say`,
  about:
    "Growth of the proxy's resident memory, and of the kernel's (sockets, buffers, connection tracking) beyond what client and backend need without a proxy.",
  metrics: [
    kilobytes('user', 'Memory of the proxy'),
    kilobytes('kernel', "The kernel's for the proxy"),
  ],
  goals: [
    { target: 'usher-portable', metric: 'user', atMost: 12 },
    { target: 'usher-linux', metric: 'user', atMost: 1 },
  ],
  fresh: true,
  mostRounds: 3,
  leavesOut: target =>
    target.kind === 'direct' ? 'there is no proxy to measure' : notGivenReason(target),
  prepare: async runsOf => {
    const [direct] = await runsOf(({ kind }) => kind === 'direct')
    if (direct === undefined)
      return { notes: ["The kernel's memory is of client, proxy and backend together."] }
    const { memory } = await memoryOf(direct)
    return { notes: [], value: memory.kernelBytes }
  },
  expectedSeconds: () => 6,
  run: async (run, { value: withoutProxy = 0 }) => {
    const { answer, memory } = await memoryOf(run)
    return sampleOf(answer, {
      user: memory.userBytes / 1000,
      kernel: (memory.kernelBytes - withoutProxy) / 1000,
    })
  },
}
