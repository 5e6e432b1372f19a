import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type Assertions, readTap } from './read-tap.ts'

export interface TestFile {
  readonly file: string
  /** The Node to run it with. */
  readonly node: string
  /** Goes before the command line. */
  readonly sandbox: readonly string[]
  /** For the whole file; it may ask for another one (t.setTimeout). */
  readonly timeoutMs: number
}

export interface FileResult extends Assertions {
  readonly file: string
  readonly ms: number
  /** How its process ended, if not well: `exit code 3`, `SIGSEGV`; else ''. */
  readonly ended: string
  readonly stderr: string
  /** All that it said, for the report. */
  readonly output: string
}

/** Half the processor time of tap's own, which each file and each thread of it would pay. */
const typescript = import.meta.resolve('tsx')

/** What `tap` in the process and whoever started it tell one another. */
const key = { TAP_CHILD_KEY: 'usher', TAP_CHILD_ID: '0' }

/** Milliseconds in which a file says what it waited for, once its time is over. */
const lastWordsMs = 2000

/** Never rejects for a test that fails, in whichever way. */
export const runTestFile = async (test: TestFile): Promise<FileResult> => {
  const { file, node, sandbox, timeoutMs } = test
  const began = performance.now()
  const [command, ...args] = [
    ...sandbox,
    node,
    // How TypeScript is loaded is tsx's own affair; everything else that is deprecated is told.
    '--disable-warning=DEP0205',
    `--import=${typescript}`,
    '--enable-source-maps',
    file,
  ]
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      ...process.env,
      TAP: '1',
      TAP_TIMEOUT: String(timeoutMs / 1000),
      ...key,
    },
  })
  const limit = limitTime(child, timeoutMs)
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>,
  ])
  limit.end()
  const ended = limit.isOver
    ? `not done after ${limit.ms / 1000} s`
    : wordsOfEnd(code, signal)
  const output = stderr === '' ? stdout : `${stdout}\n# on stderr:\n${commented(stderr)}`
  const ms = performance.now() - began
  return { file, ms, ended, stderr, output, ...(await readTap(stdout)) }
}

interface TimeLimit {
  readonly isOver: boolean
  readonly ms: number
  readonly end: () => void
}

/** Asks it to say what it waits for, then ends it. */
const limitTime = (child: ChildProcess, timeoutMs: number): TimeLimit => {
  let ms = timeoutMs
  let isOver = false
  let timer: NodeJS.Timeout | undefined
  const over = (): void => {
    isOver = true
    const abort = { tapAbort: 'timeout', key: key.TAP_CHILD_KEY, child: key.TAP_CHILD_ID }
    if (child.connected) child.send(abort, () => {})
    timer = setTimeout(() => child.kill('SIGKILL'), lastWordsMs)
  }
  const start = (): void => {
    clearTimeout(timer)
    if (ms > 0) timer = setTimeout(over, ms)
  }
  child.on('message', (message: { readonly setTimeout?: unknown } | null) => {
    if (typeof message?.setTimeout !== 'number' || isOver) return
    ms = message.setTimeout
    start()
  })
  start()
  return {
    get isOver() {
      return isOver
    },
    get ms() {
      return ms
    },
    end: () => clearTimeout(timer),
  }
}

/** A shell in between has made a signal a number. */
const wordsOfEnd = (code: number | null, signal: NodeJS.Signals | null): string => {
  if (code === 0) return ''
  const names = Object.entries(constants.signals)
  const name = names.find(([, number]) => code === 128 + number)?.[0]
  return signal ?? name ?? `exit code ${code}`
}

const commented = (lines: string): string => lines.trimEnd().replaceAll(/^/gm, '# ')
