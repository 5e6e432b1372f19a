import { writeFileSync } from 'node:fs'
import { measure } from './control/measure.ts'
import { type ControlOptions, helpText, parseControlOptions } from './control/options.ts'
import { reportControl } from './control/report.ts'
import { describeMachine } from './machine.ts'

/** Measures and prints. Resolves with the exit code. */
const control = async (options: ControlOptions): Promise<number> => {
  const machine = describeMachine()
  const { services, endpointsPerSlice, changesPerSecond, seconds } = options
  console.log(
    [
      `${machine.cpus} CPUs (${machine.model}), ${machine.kernel}, Node ${machine.node}`,
      `${services} Services, as many slices of ${endpointsPerSlice} endpoints,` +
        ` ${options.streamingLists ? 'streamed' : 'in pages'};` +
        ` then ${changesPerSecond} endpoint changes a second for ${seconds} s.`,
      'The API server and the bench share these CPUs with Usher.',
      '',
    ].join('\n'),
  )
  try {
    const figures = await measure(options, what => console.error(what))
    console.log(reportControl(figures).join('\n'))
    if (options.json !== undefined)
      writeFileSync(options.json, `${JSON.stringify({ machine, options, figures })}\n`)
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
