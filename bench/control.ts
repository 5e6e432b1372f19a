import { writeFileSync } from 'node:fs'
import type { Figures } from './control/figures.ts'
import { measure } from './control/measure.ts'
import { type ControlOptions, helpText, parseControlOptions } from './control/options.ts'
import { reportControl } from './control/report.ts'
import { describeMachine } from './machine.ts'
import { measureRules, type RuleFigures } from './rules/measure.ts'
import { reportRules } from './rules/report.ts'

const say = (what: string): void => console.error(what)

/** Against an API server: from objects to connections. */
const services = async (options: ControlOptions): Promise<Figures> => {
  const { services: count, endpointsPerSlice, changesPerSecond, seconds } = options
  console.log(
    [
      `${count} Services, as many slices of ${endpointsPerSlice} endpoints,` +
        ` ${options.streamingLists ? 'streamed' : 'in pages'};` +
        ` then ${changesPerSecond} endpoint changes a second for ${seconds} s.`,
      'The API server and the bench share these CPUs with Usher.',
      '',
    ].join('\n'),
  )
  const figures = await measure(options, say)
  console.log(`${reportControl(figures).join('\n')}\n`)
  return figures
}

const rules = async ({ vips }: ControlOptions): Promise<readonly RuleFigures[]> => {
  const figures = await measureRules(vips, say)
  console.log(reportRules(figures).join('\n'))
  return figures
}

/** Measures and prints. Resolves with the exit code. */
const control = async (options: ControlOptions): Promise<number> => {
  const machine = describeMachine()
  const { only } = options
  console.log(
    `${machine.cpus} CPUs (${machine.model}), ${machine.kernel}, Node ${machine.node}`,
  )
  try {
    const figures = only === 'rules' ? undefined : await services(options)
    const ruleFigures = only === 'services' ? undefined : await rules(options)
    if (options.json !== undefined) {
      const all = { machine, options, figures, rules: ruleFigures }
      writeFileSync(options.json, `${JSON.stringify(all)}\n`)
    }
    return 0
  } catch (error) {
    console.error(
      `NOT MEASURED ${error instanceof Error ? error.message : String(error)}`,
    )
    return 1
  }
}

const parse = (argv: readonly string[]): ControlOptions | undefined => {
  try {
    return parseControlOptions(argv)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return undefined
  }
}

const options = parse(process.argv.slice(2))
if (options === undefined) process.exitCode = 2
else if (options.help) process.stdout.write(helpText)
else process.exitCode = await control(options)
