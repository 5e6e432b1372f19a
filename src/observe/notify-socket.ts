import { execFile } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  AF_UNIX,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
} from '../ffi/constants.ts'
import { systemError } from '../ffi/errno.ts'
import { loadSyscalls, type Syscalls } from '../ffi/syscalls.ts'
import { writeSockaddr } from '../relay/engine/sockaddr.ts'
import { messageOf, errorCode } from '../util/usher-error.ts'
import type { Log } from './log.ts'

/** Sends assignments, `READY=1` and the like, as one message. Rejects when it can't. */
type Send = (lines: readonly string[]) => Promise<void>

/** Hands over assignments, one message after the other. Never rejects. */
export type Notify = (...lines: string[]) => Promise<void>

/** For a struct sockaddr_un, and for a message. */
const addressBytes = 128
const mostBytes = 4096

/**
 * One message to a unix datagram socket, which Node has no way to. It does not wait: a service
 * manager that hangs must not stop a proxy.
 */
const sendDatagram = (syscalls: Syscalls, socket: string, text: string): void => {
  const memory = syscalls.allocate(addressBytes + mostBytes)
  const { address } = memory
  const length = writeSockaddr(memory, 0, `unix:${socket}`, 0)
  const size = memory.bytes.write(text, addressBytes, mostBytes)
  const fd = syscalls.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (fd < 0) throw systemError('socket', fd)
  const flags = MSG_DONTWAIT | MSG_NOSIGNAL
  const connected = syscalls.connect(fd, address, length)
  const sent =
    connected < 0 ? connected : syscalls.send(fd, address + addressBytes, size, flags)
  syscalls.close(fd)
  if (sent < 0) throw systemError(socket, sent)
}

/** systemd's own program does it, for a process more with each message. */
const byProgram =
  (socket: string): Send =>
  async lines => {
    const env = { PATH: process.env['PATH'], NOTIFY_SOCKET: socket }
    await promisify(execFile)('systemd-notify', [...lines], { env, timeout: 5000 })
  }

const againMs = 100
const mostTries = 50

/** A manager that is slow to read has a full queue: READY=1 may not be lost to that. */
const byFfi =
  (socket: string, syscalls: Syscalls): Send =>
  async lines => {
    for (let tries = 1; ; tries += 1) {
      try {
        return sendDatagram(syscalls, socket, lines.join('\n'))
      } catch (error) {
        if (errorCode(error as NodeJS.ErrnoException) !== 'EAGAIN' || tries === mostTries)
          throw error
        await setTimeout(againMs)
      }
    }
  }

/**
 * The way to the service manager that started this process (sd_notify(3)): to the socket of
 * NOTIFY_SOCKET, by path or by an abstract name with an `@` before it. Undefined without one. What this
 * process starts must not find the variable and speak for it.
 */
export const noticesTo = (
  env: NodeJS.ProcessEnv,
  log: Log,
  load = loadSyscalls,
): Notify | undefined => {
  const socket = env['NOTIFY_SOCKET'] ?? ''
  delete env['NOTIFY_SOCKET']
  if (!/^[/@]./.test(socket)) return undefined
  let send: Send
  try {
    send = byFfi(socket, load())
  } catch {
    send = byProgram(socket)
  }
  let last = Promise.resolve()
  let isLogged = false
  const failed = (error: unknown): void => {
    if (!isLogged)
      log.warn(
        { socket, why: messageOf(error) },
        'the service manager could not be notified',
      )
    isLogged = true
  }
  return (...lines) => (last = last.then(() => send(lines)).catch(failed))
}
