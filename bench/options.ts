import { parseArgs } from 'node:util'

export interface SmokeOptions {
  readonly rounds: number
  /** Length of a measured window. */
  readonly seconds: number
  readonly scenarios: readonly string[]
  readonly targets: readonly string[]
  /** Where to write every sample, if anywhere. */
  readonly json?: string
  readonly pin: boolean
  /** The proxy under test, without its routes; split at white space. */
  readonly usherCommand?: readonly string[]
  readonly help: boolean
}

/** What may be named after `--only` and `--targets`; all of it is the default. */
export interface Known {
  readonly scenarios: readonly string[]
  readonly targets: readonly string[]
}

export const helpText = ({ scenarios, targets }: Known): string =>
  `Measures ways to a backend beside each other on this machine, over loopback.

  --rounds N           rounds per scenario, 1 to 1000 (default 5)
  --seconds S          length of each measurement, 0.1 to 600 (default 1.5)
  --only NAME,...      scenarios (default ${scenarios.join(',')})
  --targets NAME,...   targets (default ${targets.join(',')})
  --json FILE          write every sample there too
  --pin                client and backend on CPU 0, the proxy on CPU 1 (taskset)
  --usher-command CMD  another proxy in usher's place; gets --route flags added
  --help
`

/** Reads the command line. Throws an Error naming the flag, and what would be right. */
export const parseSmokeOptions = (
  argv: readonly string[],
  known: Known,
): SmokeOptions => {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '1.5' },
      only: { type: 'string', default: known.scenarios.join(',') },
      targets: { type: 'string', default: known.targets.join(',') },
      json: { type: 'string' },
      pin: { type: 'boolean', default: false },
      'usher-command': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  const rounds = numberOf('--rounds', values.rounds, 1, 1000)
  if (!Number.isInteger(rounds))
    throw new Error(`--rounds ${rounds}: want a whole number`)
  const command = values['usher-command']
  return {
    rounds,
    seconds: numberOf('--seconds', values.seconds, 0.1, 600),
    scenarios: namesOf('--only', values.only, known.scenarios),
    targets: namesOf('--targets', values.targets, known.targets),
    ...(values.json === undefined ? {} : { json: values.json }),
    pin: values.pin,
    ...(command === undefined ? {} : { usherCommand: wordsOf(command) }),
    help: values.help,
  }
}

const numberOf = (flag: string, text: string, from: number, to: number): number => {
  const number = text.trim() === '' ? Number.NaN : Number(text)
  if (number >= from && number <= to) return number
  throw new Error(`${flag} ${text}: want a number from ${from} to ${to}`)
}

/** The chosen names, in the order in which they are known, each once. */
const namesOf = (flag: string, text: string, known: readonly string[]): string[] => {
  const chosen = text.split(',').map(name => name.trim())
  const stranger = chosen.find(name => !known.includes(name))
  if (stranger !== undefined)
    throw new Error(`${flag}: '${stranger}' is none of ${known.join(', ')}`)
  return known.filter(name => chosen.includes(name))
}

const wordsOf = (command: string): string[] => {
  const words = command.split(/\s+/).filter(word => word !== '')
  if (words.length === 0) throw new Error('--usher-command: want a program to start')
  return words
}
