import { isCommand, type Command } from '../config/commands.ts'
import { parseOptions, unknownCommand, wantsHelp, wantsVersion } from '../config/parse.ts'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { commandHelp, mainHelp } from './help.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'

/** What `bench/bench.ts` exports. */
export interface BenchModule {
  readonly bench: (options: OptionsOf<'bench'>, io: Io) => Promise<number>
}

type Call = (args: readonly string[], io: Io) => Promise<number>

/** A command that is given its options. It is loaded only when it is called: help needs none of them. */
const withOptions =
  <C extends Command>(
    command: C,
    load: () => Promise<(options: OptionsOf<C>, io: Io) => Promise<number>>,
  ): Call =>
  async (args, io) => {
    const options = parseOptions(command, args)
    return (await load())(options, io)
  }

const calls: Readonly<Record<Command, Call>> = {
  run: async (args, io) => (await import('./run.ts')).run(args, io),
  check: async (args, io) => (await import('./check.ts')).check(args, io),
  sidecar: withOptions('sidecar', async () => (await import('./sidecar.ts')).sidecar),
  demo: withOptions('demo', async () => (await import('./demo.ts')).demo),
  status: withOptions('status', async () => (await import('./status.ts')).status),
  pause: withOptions('pause', async () => (await import('./orders.ts')).pause),
  resume: withOptions('resume', async () => (await import('./orders.ts')).resume),
  drain: withOptions('drain', async () => (await import('./orders.ts')).drain),
  undrain: withOptions('undrain', async () => (await import('./orders.ts')).undrain),
  weight: withOptions('weight', async () => (await import('./orders.ts')).weight),
  get: withOptions('get', async () => (await import('./get.ts')).get),
  close: withOptions('close', async () => (await import('./orders.ts')).close),
  explain: withOptions('explain', async () => (await import('./explain.ts')).explain),
  top: withOptions('top', async () => (await import('./top.ts')).top),
  tap: withOptions('tap', async () => (await import('./tap.ts')).tap),
  wait: withOptions('wait', async () => (await import('./wait.ts')).wait),
  cleanup: withOptions('cleanup', async () => (await import('./cleanup.ts')).cleanup),
  completion: withOptions(
    'completion',
    async () => (await import('./completion.ts')).completion,
  ),
  bench: withOptions('bench', async () => (await loadBench()).bench),
}

/**
 * The bench is compiled apart and uses Usher as its library: by its address, so that nothing of
 * it becomes a part of this program.
 */
const loadBench = async (): Promise<BenchModule> => {
  const file = import.meta.url.endsWith('.ts')
    ? '../../bench/bench.ts'
    : '../bench/bench.js'
  return (await import(new URL(file, import.meta.url).href)) as BenchModule
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
  if (first === '--version') {
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
 * 2 for a wrong call, 1 for a failure, both said on `io.err`. Never rejects.
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
    return 1
  }
}

/** What a user can correct needs its message only; a bug of Usher's needs its stack. */
const explain = (error: unknown): string => {
  if (!(error instanceof Error)) return visible(String(error))
  if ('code' in error) return visible(error.message)
  return (error.stack ?? error.message).split('\n').map(visible).join('\n')
}
