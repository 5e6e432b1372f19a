import { type ChildProcess, fork } from 'node:child_process'

/** A process of the bench's own that answers one question at a time. */
export interface Child {
  readonly pid: number
  /** Rejects when the process dies, reports an error, or takes longer than `timeoutMs`. */
  ask(question: unknown, timeoutMs: number): Promise<unknown>
  stop(): Promise<void>
}

type Reply = { readonly answer: unknown } | { readonly failure: string }

/** Starts a TypeScript file of the bench in a process of its own. */
export const startChild = (file: URL): Child => {
  const child = fork(file, [], { execArgv: ['--import', import.meta.resolve('tsx')] })
  if (child.pid === undefined) throw new Error(`could not start ${file.pathname}`)
  return {
    pid: child.pid,
    ask: (question, timeoutMs) => ask(child, file, question, timeoutMs),
    stop: () => stopProcess(child),
  }
}

const ask = (child: ChildProcess, file: URL, question: unknown, timeoutMs: number) =>
  new Promise<unknown>((resolve, reject) => {
    const fail = (reason: string): void => finish(() => reject(new Error(reason)))
    const onMessage = (message: unknown): void => {
      const reply = message as Reply
      if ('failure' in reply) fail(reply.failure)
      else finish(() => resolve(reply.answer))
    }
    const onExit = (): void => fail(`${file.pathname} ended unexpectedly`)
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
    child.send({ question }, error => {
      if (error) fail(error.message)
    })
  })

/** The other end: answers each question of the parent, and ends when the parent does. */
export const answerParent = (answer: (question: unknown) => Promise<unknown>): void => {
  const reply = async (question: unknown): Promise<void> => {
    let message: Reply
    try {
      message = { answer: await answer(question) }
    } catch (error) {
      message = { failure: error instanceof Error ? error.message : String(error) }
    }
    process.send?.(message)
  }
  process.on('message', (message: { question: unknown }) => {
    void reply(message.question)
  })
  process.on('disconnect', () => process.exit(0))
  // Ctrl-C reaches the whole group: the parent decides in which order it ends.
  process.on('SIGINT', () => undefined)
}

/** Asks a process to end, and ends it after two seconds. Resolves when it is gone. */
export const stopProcess = (child: ChildProcess): Promise<void> =>
  new Promise(resolve => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    const timer = setTimeout(() => child.kill('SIGKILL'), 2000)
    child.once('exit', () => {
      clearTimeout(timer)
      resolve()
    })
    child.kill('SIGTERM')
  })
