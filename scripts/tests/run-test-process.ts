import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { type Assertions, readTap, type Tap } from './read-tap.ts'

export interface TestProcess {
  /** Run one after the other. */
  readonly files: readonly string[]
  /** The Node to run them with. */
  readonly node: string
  /** Goes before the command line. */
  readonly sandbox: readonly string[]
  /** For each file; it may ask for another one (t.setTimeout). */
  readonly timeoutMs: number
}

export interface FileResult extends Assertions {
  readonly file: string
  /** Why it failed beside its assertions: its process ended early; else ''. */
  readonly ended: string
  readonly stderr: string
}

export interface ProcessResult {
  readonly files: readonly FileResult[]
  readonly ms: number
  /** All that it said, for the report. */
  readonly output: string
}

const typescript = import.meta.resolve('./typescript.mjs')
const program = fileURLToPath(new URL('run-in-turn.ts', import.meta.url))

/** What `tap` in the process and the one that started it tell each other. */
const key = { TAP_CHILD_KEY: 'usher', TAP_CHILD_ID: '0' }

/** Milliseconds in which a file says what it waited for, once its time is over. */
const lastWordsMs = 2000

/** Never rejects for a test that fails, in whichever way. */
export const runTestProcess = async (test: TestProcess): Promise<ProcessResult> => {
  const { files, node, sandbox, timeoutMs } = test
  const began = performance.now()
  const [command = '', ...args] = [
    ...sandbox,
    node,
    // How TypeScript is loaded is no affair of the tests; all else that is deprecated is said.
    '--disable-warning=DEP0205',
    `--import=${typescript}`,
    '--enable-source-maps',
    program,
    ...files,
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
  const ms = performance.now() - began
  const results = resultsOf(files, await readTap(stdout), ended, stderr, ms)
  const output = stderr === '' ? stdout : `${stdout}\n# on stderr:\n${commented(stderr)}`
  return { files: results, ms, output }
}

const untouched: Assertions = { passed: 0, failures: [], skips: [], ms: undefined }

/** An early end is the fault of the file that ran then; those after it never began. */
const resultsOf = (
  files: readonly string[],
  tap: Tap,
  ended: string,
  stderr: string,
  ms: number,
): readonly FileResult[] => {
  const last = [...tap.files.keys()].at(-1) ?? files[0]
  const hasFailed = [...tap.files.values()].some(({ failures }) => failures.length > 0)
  // One in which a test failed ends with 1: that is nothing new.
  const broken = ended === 'exit code 1' && hasFailed ? '' : ended
  const why =
    broken !== '' ? `its process: ${broken}` : hasFailed ? '' : tap.complaints.join('; ')
  return files.map(file => {
    const found = tap.files.get(file)
    const isLast = file === last
    return {
      file,
      ...(found ?? untouched),
      ms: found?.ms ?? (isLast ? ms : undefined),
      ended: isLast ? why : found === undefined ? `never begun, after ${last}` : '',
      // Whose words they are is not known: they stand where the process ended.
      stderr: isLast ? stderr : '',
    }
  })
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
