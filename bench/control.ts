import { measureAdmin } from './admin/measure.ts'
import { adminScenarios } from './admin/record.ts'
import { measureLed } from './connect-time/measure.ts'
import { ledScenarios } from './connect-time/record.ts'
import { measure } from './control/measure.ts'
import {
  type ControlOptions,
  helpText,
  parseControlOptions,
  wants,
} from './control/options.ts'
import { changeScenarios, startScenarios } from './control/record.ts'
import { controlTargets, settingOf } from './control/setting.ts'
import { describeMachine } from './header.ts'
import { measureModes, type ModeWish } from './modes/measure.ts'
import { chooseProxiers } from './modes/proxiers.ts'
import { modeScenarios } from './modes/record.ts'
import { writeResults } from './outputs.ts'
import type { RunRecord, ScenarioRecord } from './record/record.ts'
import { introduction, reportScenario, summary } from './report/terminal.ts'
import { measureRules } from './rules/measure.ts'
import { ruleScenarios } from './rules/record.ts'
import { version } from '../src/cli/version.ts'

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

type Take = (scenarios: readonly ScenarioRecord[]) => void

/**
 * Hands scenarios over as they are done: from objects to connections, then rules, then the
 * kernel modes, then connects that are led.
 */
const measureAll = async (
  options: ControlOptions,
  signal: AbortSignal,
  take: Take,
): Promise<void> => {
  if (wants(options, 'services')) {
    const figures = await measure(options, say, signal, start =>
      take(startScenarios(start, options)),
    )
    take(changeScenarios(figures, options))
  }
  if (wants(options, 'admin'))
    take(adminScenarios(await measureAdmin(options, say, signal), options))
  for (const vips of wants(options, 'rules') ? options.vips : []) {
    if (signal.aborted) return
    take(ruleScenarios(vips, await measureRules(vips, say, signal)))
  }
  for (const services of wants(options, 'modes') ? options.modeServices : []) {
    if (signal.aborted) return
    const wish = modeWish(options, services)
    const proxiers = chooseProxiers(options.modeTargets, services)
    take(modeScenarios(wish, await measureModes(proxiers, wish, say, signal)))
  }
  for (const services of wants(options, 'connect-time') ? options.modeServices : []) {
    if (signal.aborted) return
    const wish = modeWish(options, services)
    take(ledScenarios(wish, await measureLed(wish, say, signal)))
  }
}

const modeWish = (options: ControlOptions, services: number): ModeWish => ({
  services,
  endpoints: options.modeEndpoints,
  changes: options.modeChanges,
  stream: {
    seconds: options.modeStream,
    perSecond: options.changesPerSecond,
    minSyncMs: options.modeMinSync,
  },
})

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
    failure = error instanceof Error ? error.message : String(error)
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
    console.error(error instanceof Error ? error.message : error)
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
