import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { tookOverText } from '../observe/status.ts'
import { ownUid, statIfThere } from '../util/placed-socket.ts'
import { textOf } from '../util/read-text.ts'
import { errorCode, errorOf, hasCode } from '../util/usher-error.ts'
import { askCommand, askStatus, exitCodeOf, type Where } from './ask-usher.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'

/** Milliseconds between two looks at which Usher answers. */
const lookMs = 100
const longestPid = 20

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
    // What it is started with and what is told to it is that user's to say, and its sockets pass to that user alone.
    const owner = statIfThere(controlSocket)?.uid ?? ownUid()
    if (owner !== ownUid()) {
      io.err(`usher upgrade: the running one is of uid ${owner}: run this as that user\n`)
      return 1
    }
    const before = await running(where)
    const args = commandLine.length > 0 ? commandLine : before.args
    const isSame = before.version === version() && isDeepStrictEqual(args, before.args)
    if (isSame && !always) return readAgain(before, io)
    const child = await start(before, args, commandLine.length > 0)
    const why = await serves(child, where, timeout)
    if (why === '') {
      const { document } = await askStatus(where)
      const { tookOver } = document
      const did = tookOver ? tookOverText(tookOver) : 'nothing was taken over'
      io.out(`PID ${child} (${document.version}) serves: ${visible(did)}\n`)
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

/**
 * Starts it and gives its PID. By a shell that ends at once, so that it is a child of the service
 * manager's when that learns of it: systemd does not wait for the end of what is another's child.
 */
const start = async (
  { pid, directory, watchdogMs }: Running,
  args: readonly string[],
  isGiven: boolean,
): Promise<number> => {
  const [, program = ''] = process.argv
  const command = [process.execPath, ...process.execArgv, program, ...args]
  const shell = spawn('/bin/sh', ['-c', '"$@" 3>&- & echo $! >&3', 'sh', ...command], {
    // Of a session of its own: it outlives this command, and the terminal.
    detached: true,
    stdio: ['ignore', logOf(pid, 1), logOf(pid, 2), 'pipe'],
    ...(!isGiven && { cwd: directory }),
    env: {
      ...process.env,
      // systemd tells it to the process that it has started itself.
      ...(watchdogMs !== null && { WATCHDOG_USEC: String(watchdogMs * 1000) }),
    },
  })
  const [said] = await Promise.all([
    textOf(shell.stdio[3] as Readable, longestPid),
    once(shell, 'close'),
  ])
  return Number(said ?? 0)
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
  child: number,
  where: Where,
  timeoutMs: number,
): Promise<string> => {
  if (!(child > 1)) return 'the new one could not be started'
  for (const until = performance.now() + timeoutMs; performance.now() < until;) {
    // Looked at before: it may end after it has served.
    const isThere = isAlive(child)
    if ((await pidAt(where)) === child) return ''
    if (!isThere) return 'the new one has ended before it served; its log says why'
    await sleep(lookMs)
  }
  if (isAlive(child)) process.kill(child)
  return `the new one did not serve within ${timeoutMs / 1000} s, and is ended`
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
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
