import { version } from '#usher/cli/version'
import { commandLine } from './command-line.ts'
import { describeMachine } from './machine.ts'
import type { Plan } from './measure.ts'
import type { RunRecord } from './record/record.ts'
import { versions } from './targets/all-targets.ts'
import type { Here } from './measure-here.ts'
import type { Tools } from './tools.ts'

/** Everything of a record but what measuring finds. */
export type Header = Omit<
  RunRecord,
  'seconds' | 'complete' | 'targets' | 'leftOut' | 'scenarios' | 'yardsticks'
>

export const headerOf = async (
  here: Here,
  plan: Plan,
  tools: Tools,
): Promise<Header> => ({
  format: 'usher-bench/1',
  title: 'Usher beside its peers',
  startedAt: new Date().toISOString(),
  command: commandLine(process.argv.slice(2)),
  machine: describeMachine(),
  versions: {
    usher: version(),
    ...(await versions()),
    ...(tools.wrkVersion === '' ? {} : { wrk: tools.wrkVersion }),
  },
  setting: settingOf(here, plan, tools),
})

const settingOf = (
  { options, topology, why }: Here,
  { rounds, seconds }: Plan,
  { generator, backend }: Tools,
): RunRecord['setting'] => [
  ['Topology', topology.description + (why === '' ? '' : ` (${why})`)],
  ['Rounds', `${rounds} of ${seconds} s for each target, by turns; medians`],
  [
    'HTTP load',
    generator === 'wrk' ? 'wrk, one thread' : "the bench's own generator, one thread",
  ],
  [
    'HTTP backends',
    options.backend.length > 0
      ? 'those that were given'
      : `two, ${backend === 'nginx' ? 'nginx with one worker each' : "the bench's own"}`,
  ],
  [
    'CPUs',
    options.pin
      ? 'client and backends on CPU 0, proxies on CPU 1'
      : 'shared by client, proxies and backends',
  ],
]
