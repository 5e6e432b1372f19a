import { type ChildProcess, spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { tookOverText } from '../observe/status.ts'
import { errorCode, errorOf, hasCode } from '../util/usher-error.ts'
import { askCommand, askStatus, exitCodeOf, type Where } from './ask-usher.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'

/** Milliseconds between two looks at which Usher answers. */
const lookMs = 100

/** What is there, before and after. */
type Running = AnswerOf<'take-over'>

/**
 * `usher upgrade`: starts this version beside the Usher that runs, and that one's place is taken. 0 when
 * the new one serves, or the running one is the same and has been told to read its files again; 1
 * when the new one did not come to serve; 3 when none runs.
 */
export const upgrade = (
  { controlSocket, commandLine, always, timeout }: OptionsOf<'upgrade'>,
  io: Io,
): Promise<number> => {
  if (controlSocket === '')
    throw new UsageError(
      'no control socket given; give --control-socket PATH, the path that Usher was started with, or set USHER_CONTROL_SOCKET',
      'upgrade',
    )
  return exitCodeOf('upgrade', io, async () => {
    const where = { controlSocket, address: '' }
    const before = await running(where)
    const args = commandLine.length > 0 ? commandLine : before.args
    const isSame = before.version === version() && isDeepStrictEqual(args, before.args)
    if (isSame && !always) return readAgain(before, io)
    const child = start(before, args, commandLine.length > 0)
    const why = await serves(child, where, timeout)
    if (why === '') {
      const { document } = await askStatus(where)
      const { tookOver } = document
      const did = tookOver ? tookOverText(tookOver) : 'nothing was taken over'
      io.out(`PID ${child.pid} (${document.version}) serves: ${visible(did)}\n`)
      return 0
    }
    const { pid } = before
    io.err(`usher upgrade: ${why}; PID ${pid} (${before.version}) serves as before\n`)
    return 1
  })
}

const running = (where: Where): Promise<Running> =>
  askCommand(where, 'take-over', {
    version: version(),
    pid: process.pid,
    begin: false,
    hasRelay: false,
  })

/** As SIGHUP does. */
const readAgain = ({ pid }: Running, io: Io): number => {
  try {
    process.kill(pid, 'SIGHUP')
  } catch (error) {
    io.err(`usher upgrade: no signal to PID ${pid}: ${errorCode(errorOf(error))}\n`)
    return 1
  }
  io.out(
    `PID ${pid} is of this version and was started alike: it reads its files again; --always replaces it\n`,
  )
  return 0
}

/** In a group of its own: it outlives this command, and the terminal. */
const start = (
  { pid, directory, watchdogMs }: Running,
  args: readonly string[],
  isGiven: boolean,
): ChildProcess => {
  const [, program = ''] = process.argv
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    detached: true,
    stdio: ['ignore', logOf(pid, 1), logOf(pid, 2)],
    ...(!isGiven && { cwd: directory }),
    env: {
      ...process.env,
      // systemd tells it to the process that it has started itself.
      ...(watchdogMs !== null && { WATCHDOG_USEC: String(watchdogMs * 1000) }),
    },
  })
  child.unref()
  return child
}

/** Where the running one writes; that of this command where it can't be opened, as a socket of systemd's. */
const logOf = (pid: number, fd: number): number | 'inherit' => {
  try {
    return openSync(`/proc/${pid}/fd/${fd}`, 'a')
  } catch {
    return 'inherit'
  }
}

/** '' once it is the one that answers; else why it is not. */
const serves = async (
  child: ChildProcess,
  where: Where,
  timeoutMs: number,
): Promise<string> => {
  let ended = ''
  child.on(
    'error',
    ({ message }) => (ended = `the new one could not be started: ${message}`),
  )
  child.on('exit', (code, signal) => {
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`
    ended = `the new one has ended ${how} before it served`
  })
  for (const until = performance.now() + timeoutMs; performance.now() < until;) {
    if ((await pidAt(where)) === child.pid) return ''
    if (ended !== '') return ended
    await sleep(lookMs)
  }
  child.kill()
  return `the new one did not serve within ${timeoutMs / 1000} s, and is ended`
}

/** While one follows the other there is none. */
const pidAt = async (where: Where): Promise<number> => {
  try {
    return (await running(where)).pid
  } catch (error) {
    if (!hasCode(error, 'NO_ANSWER')) throw error
    return 0
  }
}
