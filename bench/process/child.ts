import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A process of the bench's own that answers one question at a time. */
export interface Child {
  readonly pid: number
  /** Rejects when the process dies, reports an error, or takes longer than `timeoutMs`. */
  ask(question: unknown, timeoutMs: number): Promise<unknown>
  /** Also when it can't be asked any more: its end may not have been reported yet. */
  hasEnded(): boolean
  stop(): Promise<void>
}

/** `id` is that of the question: an answer that comes too late is not the next one's. */
type Reply = { readonly id: number } & (
  { readonly answer: unknown } | { readonly failure: string }
)

interface Numbered {
  readonly id: number
  readonly question: unknown
}

/** A program of the bench by its path without an ending, as `load/main`; the build packs it into a file. */
export const benchProgram = (name: string): URL =>
  import.meta.url.endsWith('.ts')
    ? new URL(`../${name}.ts`, import.meta.url)
    : new URL(`./bench-${name.replace('/', '-')}.js`, import.meta.url)

/**
 * Starts a program of the bench in a process of its own.
 * @param enter - goes before its command line, see `Place`
 * @param given - its arguments
 */
export const startChild = (
  file: URL,
  enter: readonly string[] = [],
  given: readonly string[] = [],
): Child => {
  const [command = '', ...args] = [...enter, ...nodeCommand(file), ...given]
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  // What can't be started fails at the first question.
  child.on('error', () => undefined)
  if (child.pid === undefined) throw new Error(`${command}: can't be started`)
  let asked = 0
  let isDeaf = false
  const unsent = (): void => void (isDeaf = true)
  return {
    pid: child.pid,
    ask: (question, timeoutMs) =>
      ask(child, file, { id: (asked += 1), question }, timeoutMs, unsent),
    hasEnded: () => hasEnded(child) || !child.connected || isDeaf,
    stop: () => stopProcess(child),
  }
}

/**
 * The command line of such a program. Node's own flags of this process are not for it, but
 * TypeScript needs the loader that this one has.
 */
export const nodeCommand = (file: URL): readonly string[] => {
  const path = fileURLToPath(file)
  return [process.execPath, ...(path.endsWith('.ts') ? ownLoaders() : []), path]
}

/** `--import=NAME` and `--import NAME` of this process's own command line. */
const ownLoaders = (): readonly string[] =>
  process.execArgv.flatMap((flag, i, flags) => {
    if (flag.startsWith('--import=')) return [flag]
    return flags[i - 1] === '--import' ? ['--import', flag] : []
  })

const ask = (
  child: ChildProcess,
  file: URL,
  asked: Numbered,
  timeoutMs: number,
  unsent: () => void,
) =>
  new Promise<unknown>((resolve, reject) => {
    const fail = (reason: string): void => finish(() => reject(new Error(reason)))
    const onMessage = (message: unknown): void => {
      const reply = message as Reply
      if (reply.id !== asked.id) return
      if ('failure' in reply) fail(reply.failure)
      else finish(() => resolve(reply.answer))
    }
    const onExit = (): void => fail(`${file.pathname} ended unexpectedly${howOf(child)}`)
    const timer = setTimeout(
      () => fail(`${file.pathname} gave no answer in ${timeoutMs} ms`),
      timeoutMs,
    )
    const finish = (settle: () => void): void => {
      clearTimeout(timer)
      child.off('message', onMessage).off('exit', onExit)
      settle()
    }
    child.on('message', onMessage).on('exit', onExit)
    if (!child.connected) return onExit()
    child.send(asked, error => {
      if (!error) return
      unsent()
      fail(error.message)
    })
  })

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null

const howOf = ({ exitCode, signalCode }: ChildProcess): string => {
  const how = signalCode ?? exitCode
  return how === null ? '' : ` (${how})`
}

/** The other end: answers each question of the parent, and ends when the parent does. */
export const answerParent = (answer: (question: unknown) => Promise<unknown>): void => {
  const reply = async ({ id, question }: Numbered): Promise<void> => {
    let message: Reply
    try {
      message = { id, answer: await answer(question) }
    } catch (error) {
      message = { id, failure: error instanceof Error ? error.message : String(error) }
    }
    process.send?.(message)
  }
  process.on('message', (message: Numbered) => {
    void reply(message)
  })
  process.on('disconnect', () => process.exit(0))
  // Ctrl-C reaches the whole group: the parent decides in which order it ends.
  process.on('SIGINT', () => undefined)
}

/** What a program of the bench does for its parent, by name; the parent has only its type. */
export type Calls = Readonly<Record<string, (...given: never[]) => unknown>>

/** The same from the parent's side. */
export type Remote<C extends Calls> = {
  readonly [Name in keyof C]: (
    ...given: Parameters<C[Name]>
  ) => Promise<Awaited<ReturnType<C[Name]>>>
}

interface Call {
  readonly call: string
  readonly given: never[]
}

export const callsTo = <C extends Calls>(
  { ask: put }: Pick<Child, 'ask'>,
  timeoutMs: number,
): Remote<C> =>
  new Proxy({} as Remote<C>, {
    get: (_, call: string) =>
      // Who waits for it has it, as it is no promise.
      call === 'then'
        ? undefined
        : (...given: unknown[]) => put({ call, given }, timeoutMs),
  })

/** Does what the parent calls for, and ends when it does. */
export const answerCalls = (calls: Calls): void =>
  answerParent(async question => {
    const { call, given } = question as Call
    return calls[call]?.(...given)
  })

/** Asks a process to end, and ends it after two seconds. Resolves when it is gone. */
export const stopProcess = (child: ChildProcess): Promise<void> =>
  new Promise(resolve => {
    if (hasEnded(child)) return resolve()
    const timer = setTimeout(() => child.kill('SIGKILL'), 2000)
    child.once('exit', () => {
      clearTimeout(timer)
      resolve()
    })
    child.kill('SIGTERM')
  })
