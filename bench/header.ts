import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { version } from '../src/cli/version.ts'
import type { Plan } from './measure.ts'
import type { Machine, RunRecord } from './record/record.ts'
import type { Setup } from './setup.ts'
import { versions } from './targets/program.ts'
import type { Tools } from './tools.ts'

/** Everything of a record but what measuring finds. */
export type Header = Omit<
  RunRecord,
  'seconds' | 'complete' | 'targets' | 'leftOut' | 'scenarios' | 'yardsticks'
>

export const headerOf = async (
  setup: Setup,
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
  setting: settingOf(setup, plan, tools),
})

const settingOf = (
  { options, topology, loopbackReason }: Setup,
  { rounds, seconds }: Plan,
  { generator, backend }: Tools,
): RunRecord['setting'] => [
  [
    'Topology',
    topology.description + (loopbackReason === '' ? '' : ` (${loopbackReason})`),
  ],
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

/**
 * The command line that measures the same once more, as it is typed in a shell.
 * Where the results were to go is left out: reports are shown to others.
 */
export const commandLine = (args: readonly string[]): string =>
  ['usher', ...args.filter((_, at) => !isOutput(args, at))].map(quoted).join(' ')

const isOutput = (args: readonly string[], at: number): boolean =>
  args[at] === '--output' ||
  args[at - 1] === '--output' ||
  args[at]?.startsWith('--output=') === true

/** For a shell, where it needs to be. */
const quoted = (word: string): string =>
  /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** What figures depend on. */
export const describeMachine = (): Machine => ({
  cpus: availableParallelism(),
  model: cpus()[0]?.model ?? 'unknown',
  kernel: `${type()} ${release()}`,
  node: process.version,
  memoryBytes: totalmem(),
})
