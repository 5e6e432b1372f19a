import { isCommand, type Command } from '../config/commands.ts'
import { parseOptions, unknownCommand, wantsHelp, wantsVersion } from '../config/parse.ts'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { commandHelp, mainHelp } from './help.ts'
import type { Io } from './io.ts'
import { version } from './version.ts'
import { visible } from './words.ts'

/** What `bench/bench.ts` exports. */
export interface BenchModule {
  readonly bench: (options: OptionsOf<'bench'>, io: Io) => Promise<number>
}

type Call = (args: readonly string[], io: Io) => Promise<number>

/** Each command is loaded only when it is called, so that help needs none of them. */
const calls: Readonly<Record<Command, Call>> = {
  run: async (args, io) => (await import('./run.ts')).run(args, io),
  sidecar: async args => {
    const options = parseOptions('sidecar', args)
    return (await import('./sidecar.ts')).sidecar(options)
  },
  demo: async (args, io) => {
    const options = parseOptions('demo', args)
    return (await import('./demo.ts')).demo(options, io)
  },
  check: async (args, io) => (await import('./check.ts')).check(args, io),
  status: async (args, io) => {
    const options = parseOptions('status', args)
    return (await import('./status.ts')).status(options, io)
  },
  pause: async (args, io) => {
    const options = parseOptions('pause', args)
    return (await import('./pause.ts')).pause(options, io)
  },
  resume: async (args, io) => {
    const options = parseOptions('resume', args)
    return (await import('./pause.ts')).resume(options, io)
  },
  drain: async (args, io) => {
    const options = parseOptions('drain', args)
    return (await import('./drain.ts')).drain(options, io)
  },
  undrain: async (args, io) => {
    const options = parseOptions('undrain', args)
    return (await import('./drain.ts')).undrain(options, io)
  },
  weight: async (args, io) => {
    const options = parseOptions('weight', args)
    return (await import('./weight.ts')).weight(options, io)
  },
  get: async (args, io) => {
    const options = parseOptions('get', args)
    return (await import('./get.ts')).get(options, io)
  },
  close: async (args, io) => {
    const options = parseOptions('close', args)
    return (await import('./close.ts')).close(options, io)
  },
  explain: async (args, io) => {
    const options = parseOptions('explain', args)
    return (await import('./explain.ts')).explain(options, io)
  },
  top: async (args, io) => {
    const options = parseOptions('top', args)
    return (await import('./top.ts')).top(options, io)
  },
  tap: async (args, io) => {
    const options = parseOptions('tap', args)
    return (await import('./tap.ts')).tap(options, io)
  },
  wait: async (args, io) => {
    const options = parseOptions('wait', args)
    return (await import('./wait.ts')).wait(options, io)
  },
  cleanup: async (args, io) => {
    const options = parseOptions('cleanup', args)
    return (await import('./cleanup.ts')).cleanup(options, io)
  },
  completion: async (args, io) => {
    const options = parseOptions('completion', args)
    return (await import('./completion.ts')).completion(options, io)
  },
  bench: async (args, io) => {
    const options = parseOptions('bench', args)
    return (await loadBench()).bench(options, io)
  },
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
