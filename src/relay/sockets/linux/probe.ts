import { arch, platform } from 'node:os'
import { structLayout, type StructLayout } from '../../../ffi/struct-layout.ts'
import { loadSyscalls, type Syscalls, type NativeMemory } from '../../../ffi/syscalls.ts'
import {
  AF_INET,
  EPOLL_CTL_ADD,
  EPOLLIN,
  SIOCOUTQ,
  SO_ERROR,
  SO_REUSEPORT,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  SPLICE_F_NONBLOCK,
} from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'

export interface LinuxRelayParts {
  readonly calls: Syscalls
  readonly layout: StructLayout
}

/** What the Linux relay stands on, which tests replace. */
export interface LinuxRelayGround {
  readonly layout: StructLayout | undefined
  /** Throws when koffi can't be loaded. */
  readonly load: () => Syscalls
}

/**
 * What the Linux relay needs, or why it can't run here, in words that follow a colon. Takes
 * some 25 ms, nearly all of it for loading koffi. Never throws.
 */
export const probeLinuxRelay = (
  ground: Partial<LinuxRelayGround> = {},
): LinuxRelayParts | { readonly reason: string } => {
  const { layout, load } = { layout: structLayout(), load: loadSyscalls, ...ground }
  if (layout === undefined)
    return {
      reason: `it needs Linux on x86-64 or arm64, and this is ${platform()} on ${arch()}`,
    }
  let calls: Syscalls
  try {
    calls = load()
  } catch (error) {
    return { reason: loadProblem(error) }
  }
  const refused = refusedCall(calls, layout)
  return refused === '' ? { calls, layout } : { reason: refused }
}

const loadProblem = (error: unknown): string => {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'MODULE_NOT_FOUND')
    return 'the optional package koffi, which makes its system calls, is not installed; `npm install` without --omit=optional installs it'
  // Some of koffi's and of the dynamic linker's messages have several lines.
  return `koffi, which makes its system calls, can't be loaded: ${message.split('\n', 1).join('')}`
}

/**
 * Makes every call that the relay makes, on small objects of its own or on no descriptor at
 * all, which the kernel refuses with EBADF. Names the first that is answered otherwise: a
 * sandbox may forbid calls (seccomp: EPERM or ENOSYS), or have them in name only. '' when
 * all is well. Not tried are sendmsg and recvmsg, which no connection needs: where
 * they are refused, it is the hand-over to a successor that says so.
 */
const refusedCall = (calls: Syscalls, layout: StructLayout): string => {
  const trial = new Trial(calls, layout)
  try {
    trial.withNoDescriptor()
    trial.withSockets()
    trial.withPipes()
    trial.withEpoll()
    return ''
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  } finally {
    trial.end()
  }
}

class Refused extends Error {}

const noFd = -1
const flags = SOCK_NONBLOCK | SOCK_CLOEXEC

class Trial {
  readonly #calls: Syscalls
  readonly #layout: StructLayout
  /** Lives as long as the trial: the kernel writes to it. */
  readonly #memory: NativeMemory
  readonly #open: number[] = []

  constructor(calls: Syscalls, layout: StructLayout) {
    this.#calls = calls
    this.#layout = layout
    this.#memory = calls.allocate(256)
  }

  withNoDescriptor(): void {
    const calls = this.#calls
    const { address } = this.#memory
    const results = {
      bind: calls.bind(noFd, address, 16),
      listen: calls.listen(noFd, 1),
      accept4: calls.accept(noFd, 0, 0, flags),
      connect: calls.connect(noFd, address, 16),
      shutdown: calls.shutdown(noFd, 1),
      recvmmsg: calls.recvmmsg(noFd, address, 1, 0),
      sendmmsg: calls.sendmmsg(noFd, address, 1, 0),
      getsockname: calls.getsockname(noFd, address, address + 32),
      getpeername: calls.getpeername(noFd, address, address + 32),
      fcntl: calls.fcntl(noFd, 1, 0),
      close: calls.close(noFd),
    }
    for (const [name, result] of Object.entries(results)) {
      if (result !== -errno.EBADF) throw new Refused(`${name} ${describeResult(result)}`)
    }
  }

  withSockets(): void {
    const calls = this.#calls
    const { words, address } = this.#memory
    const [on, length] = [address, address + 8]
    words[0] = 1
    words[2] = 4
    const tcp = this.#opened('socket', calls.socket(AF_INET, SOCK_STREAM | flags, 0))
    this.#opened('socket', calls.socket(AF_INET, SOCK_DGRAM | flags, 0))
    must('SO_REUSEPORT', calls.setsockopt(tcp, SOL_SOCKET, SO_REUSEPORT, on, 4))
    must('getsockopt', calls.getsockopt(tcp, SOL_SOCKET, SO_ERROR, on, length))
    must('ioctl', calls.ioctl(noFd, SIOCOUTQ, address), -errno.EBADF)
  }

  withPipes(): void {
    const calls = this.#calls
    const { words, address } = this.#memory
    const ends: number[] = []
    for (let i = 0; i < 2; i += 1) {
      must('pipe2', calls.pipe(address, flags))
      ends.push(words[0] ?? noFd, words[1] ?? noFd)
      this.#open.push(...ends.slice(-2))
    }
    const [from = noFd, into = noFd, to = noFd, target = noFd] = ends
    must('write', calls.write(into, address, 8))
    must('splice', calls.splice(from, target, 8, SPLICE_F_NONBLOCK), 8)
    must('read', calls.read(to, address, 8), 8)
  }

  /** An event must come back as it was asked for: that is where structures differ. */
  withEpoll(): void {
    const calls = this.#calls
    const { words, address } = this.#memory
    const { epollDataWord: data } = this.#layout
    const epoll = this.#opened('epoll_create1', calls.epollCreate(SOCK_CLOEXEC))
    const counter = this.#opened('eventfd', calls.eventfd(1, flags))
    words.fill(0)
    words[0] = EPOLLIN
    words[data] = 0x12345678
    words[data + 1] = 0x01abcdef
    must('epoll_ctl', calls.epollCtl(epoll, EPOLL_CTL_ADD, counter, address))
    words.fill(0)
    must('epoll_wait', calls.epollWait(epoll, address, 2, 0), 1)
    if (
      words[0] !== EPOLLIN ||
      words[data] !== 0x12345678 ||
      words[data + 1] !== 0x01abcdef
    )
      throw new Refused('epoll_wait does not give back what epoll_ctl was given')
    must('read of an eventfd', calls.read(counter, address, 8), 8)
  }

  end(): void {
    for (const fd of this.#open) this.#calls.close(fd)
  }

  #opened(name: string, result: number): number {
    must(name, result, Infinity)
    this.#open.push(result)
    return result
  }
}

/** `wanted`: the answer that is right; without it zero or more, as Infinity says too. */
const must = (name: string, result: number, wanted = Infinity): void => {
  const isRight = wanted === Infinity ? result >= 0 : result === wanted
  if (!isRight) throw new Refused(`${name} ${describeResult(result)}`)
}

const describeResult = (result: number): string =>
  result < 0
    ? `is refused with ${errnoName(result)}`
    : `answers ${result}, which it should not`
