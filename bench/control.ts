import { version } from '../src/cli/version.ts'
import { measureAdmin } from './control/admin.ts'
import {
  type ControlOptions,
  controlTargets,
  helpText,
  parseControlOptions,
  settingOf,
  wants,
} from './control/options.ts'
import type { Take } from './control/record.ts'
import { measureServices } from './control/services.ts'
import { chooseSubjects } from './control/subjects.ts'
import { measureSyncs, syncScenarios, type SyncWish } from './control/sync.ts'
import { describeMachine } from './header.ts'
import { messageOf } from './measure.ts'
import { writeResults } from './outputs.ts'
import type { RunRecord, ScenarioRecord } from './record/record.ts'
import { introduction, reportScenario, summary } from './report/terminal.ts'

const say = (what: string): void => console.error(what)
const print = (lines: readonly string[]): void => console.log(lines.join('\n'))

/** Everything of a record but what measuring finds. */
const headerOf = (options: ControlOptions, argv: readonly string[]) =>
  ({
    format: 'usher-bench/1',
    title: `The control plane of Usher ${version()}`,
    startedAt: new Date().toISOString(),
    command: ['npm run bench:control', ...(argv.length > 0 ? ['--', ...argv] : [])].join(
      ' ',
    ),
    machine: describeMachine(),
    versions: { usher: version() },
    setting: settingOf(options),
    targets: controlTargets(options),
    yardsticks: [],
  }) as const

/** How often one change of a capture's is made. */
const ruleChanges = 5

/**
 * Hands scenarios over as they are done: from objects to connections, what it costs to look, then
 * rules, then the kernel modes, then connects that are led.
 */
const measureAll = async (
  options: ControlOptions,
  signal: AbortSignal,
  take: Take,
): Promise<void> => {
  const { vips, modeServices, modeTargets, modeEndpoints: endpoints } = options
  if (wants(options, 'services')) await measureServices(options, say, signal, take)
  if (wants(options, 'admin')) await measureAdmin(options, say, signal, take)
  const changes = options.modeChanges
  const stream = {
    seconds: options.modeStream,
    perSecond: options.changesPerSecond,
    minSyncMs: options.modeMinSync,
  }
  const none = { ...stream, seconds: 0 }
  const wishes: readonly SyncWish[] = [
    ...vips.map(services => ({
      part: 'rules' as const,
      services,
      endpoints: 1,
      changes: ruleChanges,
      stream: none,
    })),
    ...modeServices.map(services => ({
      part: 'modes' as const,
      services,
      endpoints,
      changes,
      stream,
    })),
    ...modeServices.map(services => ({
      part: 'connect-time' as const,
      services,
      endpoints,
      changes,
      stream: none,
    })),
  ]
  for (const wish of wishes) {
    const { part, services } = wish
    if (signal.aborted || !wants(options, part)) continue
    const words = part === 'modes' ? modeTargets : []
    const names = chooseSubjects(part, words, services).map(({ name }) => name)
    take(syncScenarios(wish, await measureSyncs(names, wish, say, signal)))
  }
}

/** Measures, prints and writes. Resolves with the exit code. */
const control = async (
  options: ControlOptions,
  argv: readonly string[],
  signal: AbortSignal,
): Promise<number> => {
  const header = headerOf(options, argv)
  const startedAt = performance.now()
  const scenarios: ScenarioRecord[] = []
  let failure = ''
  print(introduction(header))
  try {
    await measureAll(options, signal, found => {
      scenarios.push(...found)
      for (const scenario of found) print([...reportScenario(scenario, header), ''])
    })
  } catch (error) {
    failure = messageOf(error)
  }
  const record: RunRecord = {
    ...header,
    seconds: (performance.now() - startedAt) / 1000,
    complete: !signal.aborted,
    leftOut: failure === '' || signal.aborted ? [] : [{ name: 'the rest', why: failure }],
    scenarios,
  }
  print([...summary(record), ''])
  // A run that found nothing leaves nothing.
  if (scenarios.length > 0) print(writeResults(record, options.output))
  return signal.aborted ? 130 : failure === '' ? 0 : 1
}

const parse = (argv: readonly string[]): ControlOptions | undefined => {
  try {
    return parseControlOptions(argv)
  } catch (error) {
    console.error(messageOf(error))
    return undefined
  }
}

const argv = process.argv.slice(2)
const options = parse(argv)
if (options === undefined) process.exitCode = 2
else if (options.help) process.stdout.write(helpText)
else {
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => interrupt.abort(new Error('interrupted')))
  process.exitCode = await control(options, argv, interrupt.signal)
}
