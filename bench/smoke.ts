import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../src/util/clock.ts'
import { describeMachine, type Machine } from './machine.ts'
import { helpText, parseSmokeOptions, type SmokeOptions } from './options.ts'
import { Progress } from './progress.ts'
import { reportScenario } from './report.ts'
import type { ScenarioResult } from './results.ts'
import { expectedSeconds, type Plan, runScenario } from './run.ts'
import { scenarios } from './scenarios/all.ts'
import { Stage } from './stage.ts'
import { commandTarget } from './targets/command.ts'
import { direct } from './targets/direct.ts'
import type { Target } from './targets/target.ts'

const usherCommand: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL('../dist/cli/main.js', import.meta.url)),
  'sidecar',
  '--metrics-bind-address',
  'off',
  '--healthz-bind-address',
  'off',
  '--log-level',
  'warn',
]

const pipeCommand: readonly string[] = [
  process.execPath,
  '--import',
  import.meta.resolve('tsx'),
  fileURLToPath(new URL('./targets/bare-pipe.ts', import.meta.url)),
]

const targetsOf = (options: SmokeOptions): Target[] =>
  [
    direct,
    commandTarget('pipe', pipeCommand),
    commandTarget('usher', options.usherCommand ?? usherCommand),
  ].filter(({ name }) => options.targets.includes(name))

const known = {
  scenarios: scenarios.map(({ name }) => name),
  targets: ['direct', 'pipe', 'usher'],
}

const print = (lines: readonly string[]): void => {
  if (lines.length > 0) console.log(lines.join('\n'))
}

const introduction = (options: SmokeOptions, machine: Machine): string[] => [
  `${machine.cpus} CPUs (${machine.model}), ${machine.kernel}, Node ${machine.node}`,
  `${options.rounds} rounds of ${options.seconds} s by turns over ${options.targets.join(', ')};` +
    ' medians; ratios are taken within each round',
  'Client, backend and proxy share these CPUs, so speeds show the sum of all three;' +
    ' the CPU columns show who was busy.',
  ...(options.pin
    ? ['Pinned: client and backend on CPU 0 (for direct too), the proxy on CPU 1.']
    : []),
  '',
]

/** Starts every target; those that don't start are left out, with the reason. */
const startTargets = async (stage: Stage, targets: readonly Target[]) => {
  const started: Target[] = []
  const failures: string[] = []
  for (const target of targets) {
    try {
      await stage.start(target)
      started.push(target)
    } catch (error) {
      failures.push(
        `NOT MEASURED ${error instanceof Error ? error.message : String(error)}`,
      )
    }
  }
  return { started, failures }
}

/** Measures and prints. Resolves with the exit code. */
const smoke = async (options: SmokeOptions, signal: AbortSignal): Promise<number> => {
  const machine = describeMachine()
  print(introduction(options, machine))
  const results: ScenarioResult[] = []
  const stage = await Stage.open(options.pin)
  // Ending the processes is what ends the run they are in.
  signal.addEventListener('abort', () => void stage.close())
  try {
    const { started, failures } = await startTargets(stage, targetsOf(options))
    print(failures)
    const plan: Plan = {
      scenarios: scenarios.filter(({ name }) => options.scenarios.includes(name)),
      targets: started,
      rounds: options.rounds,
      seconds: options.seconds,
    }
    const progress = new Progress(expectedSeconds(plan), process.stderr, systemClock)
    for (const scenario of plan.scenarios) {
      if (signal.aborted) break
      const result = await runScenario(plan, scenario, stage, progress, signal)
      results.push(result)
      progress.clear()
      print([...reportScenario(result, known.targets), ''])
    }
    print([...failures, ...complaintsOf(stage, started)])
    if (signal.aborted) print(['Interrupted: the figures above are what there is.'])
    return signal.aborted ? 130 : failures.length > 0 ? 1 : 0
  } finally {
    await stage.close()
    const complete = !signal.aborted
    const everything = { machine, options, complete, results }
    if (options.json !== undefined)
      writeFileSync(options.json, `${JSON.stringify(everything, undefined, 2)}\n`)
  }
}

const complaintsOf = (stage: Stage, targets: readonly Target[]): string[] =>
  targets
    .map(target => ({ name: target.name, complaint: stage.complaint(target) }))
    .filter(({ complaint }) => complaint !== '')
    .map(({ name, complaint }) => `MIND ${name}: ${complaint}`)

const parse = (argv: readonly string[]): SmokeOptions | undefined => {
  try {
    return parseSmokeOptions(argv, known)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return undefined
  }
}

const options = parse(process.argv.slice(2))
if (options === undefined) process.exitCode = 2
else if (options.help) process.stdout.write(helpText(known))
else {
  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort())
  process.once('SIGTERM', () => interrupt.abort())
  process.exitCode = await smoke(options, interrupt.signal)
}
