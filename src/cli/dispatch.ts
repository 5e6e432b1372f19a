import { existsSync } from 'node:fs'
import { isCommand, type Command } from '../config/commands.ts'
import { parseOptions, unknownCommand, wantsHelp, wantsVersion } from '../config/parse.ts'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { programFile } from '../util/own-files.ts'
import { hasCode } from '../util/usher-error.ts'
import { commandHelp, mainHelp } from './help.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'

/** What `bench/bench.ts` exports. */
export interface BenchModule {
  readonly bench: (options: OptionsOf<'bench'>, io: Io) => Promise<number>
}

type Call = (args: readonly string[], io: Io) => Promise<number>

/** What carries out a command. */
type Carried<C extends Command> = (
  options: OptionsOf<NoInfer<C>>,
  io: Io,
) => Promise<number>

/** A command that is given its options. It is loaded only when it is called: help needs none of them. */
const withOptions =
  <C extends Command>(
    command: C,
    load: () => Promise<Readonly<Record<NoInfer<C>, Carried<C>>>>,
  ): Call =>
  async (args, io) => {
    const options = parseOptions(command, args)
    return (await load())[command](options, io)
  }

const serving = () => import('./serving.ts')
const asking = () => import('./asking.ts')
/** Measures Usher from outside, and so is none of its parts: Debian's package is without it. */
const bench = async (): Promise<BenchModule> => {
  const program = programFile('bench')
  if (!existsSync(program))
    throw new UsageError(
      'this package of Usher does not include the bench: use the npm package, or a clone of the project',
    )
  return (await import(program.href)) as BenchModule
}

const calls: Readonly<Record<Command, Call>> = {
  run: async (args, io) => (await serving()).run(args, io),
  check: async (args, io) => (await serving()).check(args, io),
  sidecar: withOptions('sidecar', serving),
  demo: withOptions('demo', serving),
  cleanup: withOptions('cleanup', serving),
  status: withOptions('status', asking),
  pause: withOptions('pause', asking),
  resume: withOptions('resume', asking),
  drain: withOptions('drain', asking),
  undrain: withOptions('undrain', asking),
  weight: withOptions('weight', asking),
  get: withOptions('get', asking),
  close: withOptions('close', asking),
  explain: withOptions('explain', asking),
  top: withOptions('top', asking),
  tap: withOptions('tap', asking),
  upgrade: withOptions('upgrade', asking),
  wait: withOptions('wait', asking),
  completion: withOptions('completion', asking),
  bench: withOptions('bench', bench),
}

const help = (topic: string | undefined, io: Io): number => {
  if (topic !== undefined && !isCommand(topic)) throw unknownCommand(topic)
  io.out(topic === undefined ? mainHelp(io.columns) : commandHelp(topic, io.columns))
  return 0
}

const dispatch = async (args: readonly string[], io: Io): Promise<number> => {
  const [first, ...rest] = args
  if (first === undefined) {
    io.err(mainHelp(io.columns))
    return 2
  }
  if (first === '--version' || first === '-v' || first === 'version') {
    io.out(`usher ${version()}\n`)
    return 0
  }
  if (first === '--help' || first === '-h') return help(undefined, io)
  if (first === 'help')
    return help(
      rest.find(word => !word.startsWith('-')),
      io,
    )
  if (!isCommand(first)) throw unknownCommand(first)
  if (wantsVersion(first, rest)) {
    io.out(`usher ${version()}\n`)
    return 0
  }
  return wantsHelp(rest) ? help(first, io) : calls[first](rest, io)
}

/**
 * Carries out one command line (without the program's name) and gives its exit code:
 * 2 for a wrong call or a configuration that can't be used, 1 for a failure, said on `io.err`. Never rejects.
 */
export const main = async (args: readonly string[], io: Io): Promise<number> => {
  try {
    return await dispatch(args, io)
  } catch (error) {
    if (error instanceof UsageError) {
      const name = error.command === undefined ? 'usher' : `usher ${error.command}`
      io.err(`${visible(`${name}: ${error.message}`)}\nTry: ${name} --help\n`)
      return 2
    }
    io.err(`usher: ${explain(error)}\n`)
    return hasCode(error, 'BAD_SOURCE') ? 2 : 1
  }
}

/** What a user can correct needs its message only; a bug of Usher's needs its stack. */
const explain = (error: unknown): string => {
  if (!(error instanceof Error)) return visible(String(error))
  if ('code' in error) return visible(error.message)
  return (error.stack ?? error.message).split('\n').map(visible).join('\n')
}
