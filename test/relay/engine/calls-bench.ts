import type { Test } from 'tap'
import {
  type LinuxRelayParts,
  probeLinuxRelay,
} from '../../../src/relay/sockets/linux/probe.ts'
import * as c from '../../../src/ffi/constants.ts'
import {
  readSockaddr,
  sockaddrLength,
  writeSockaddr,
} from '../../../src/relay/engine/sockaddr.ts'
import type { Syscalls, NativeMemory } from '../../../src/ffi/syscalls.ts'
import type { Bind } from '../../../src/relay/relay.ts'
import { familyOf } from '../../../src/util/ip.ts'

export const flags = c.SOCK_NONBLOCK | c.SOCK_CLOEXEC

export const linuxParts = (): LinuxRelayParts => {
  const probed = probeLinuxRelay()
  if ('reason' in probed) throw new Error(probed.reason)
  return probed
}

/** Calls and memory of one test, and its descriptors, which are closed at its end. */
export class Bench {
  readonly calls: Syscalls
  readonly layout: LinuxRelayParts['layout']
  readonly memory: NativeMemory
  readonly #open = new Set<number>()

  constructor(t: Test, bytes = 4096) {
    const { calls, layout } = linuxParts()
    this.calls = calls
    this.layout = layout
    this.memory = calls.allocate(bytes)
    t.teardown(() => {
      for (const fd of this.#open) calls.close(fd)
    })
  }

  /** The descriptor that a call gave, or an error with the call's answer. */
  keep(fd: number): number {
    if (fd < 0) throw new Error(`no descriptor: ${fd}`)
    this.#open.add(fd)
    return fd
  }

  close(fd: number): number {
    this.#open.delete(fd)
    return this.calls.close(fd)
  }

  /** The two ends of a pipe: to read from, to write to. */
  pipe(): readonly [from: number, into: number] {
    const { calls, memory } = this
    const answer = calls.pipe(memory.address, flags)
    if (answer < 0) throw new Error(`no pipe: ${answer}`)
    return [this.keep(memory.words[0] ?? -1), this.keep(memory.words[1] ?? -1)]
  }

  /** A socket bound to an address and a port of the system's choice. */
  bound(type: number, address: string): { readonly fd: number; readonly at: Bind } {
    const { calls } = this
    const domain = familyOf(address) === 'IPv6' ? c.AF_INET6 : c.AF_INET
    const fd = this.keep(calls.socket(domain, type | flags, 0))
    const sockaddr = calls.allocate(32)
    const length = writeSockaddr(sockaddr, 0, address, 0)
    const answer = calls.bind(fd, sockaddr.address, length)
    if (answer < 0) throw new Error(`no bind: ${answer}`)
    return { fd, at: this.ownAddress(fd) }
  }

  ownAddress(fd: number): Bind {
    return this.#address((address, length) => this.calls.getsockname(fd, address, length))
  }

  peerAddress(fd: number): Bind {
    return this.#address((address, length) => this.calls.getpeername(fd, address, length))
  }

  /** Starts to connect a new socket; the answer is the kernel's. */
  connect(type: number, { address, port }: Bind): readonly [fd: number, answer: number] {
    const { calls } = this
    const domain = familyOf(address) === 'IPv6' ? c.AF_INET6 : c.AF_INET
    const fd = this.keep(calls.socket(domain, type | flags, 0))
    const sockaddr = calls.allocate(32)
    const length = writeSockaddr(sockaddr, 0, address, port)
    return [fd, calls.connect(fd, sockaddr.address, length)]
  }

  /** Two ends of a TCP connection over loopback, and who listens. */
  connection(address = '127.0.0.1'): {
    readonly listener: number
    readonly client: number
    readonly server: number
    readonly at: Bind
  } {
    const { calls } = this
    const { fd: listener, at } = this.bound(c.SOCK_STREAM, address)
    calls.listen(listener, 8)
    const [client] = this.connect(c.SOCK_STREAM, at)
    const server = this.keep(calls.accept(listener, 0, 0, flags))
    return { listener, client, server, at }
  }

  /** An option that is an int. */
  setOption(fd: number, level: number, name: number, value: number): number {
    const { calls, memory } = this
    memory.words[0] = value
    return calls.setsockopt(fd, level, name, memory.address, 4)
  }

  option(fd: number, level: number, name: number): number {
    const { calls, memory } = this
    memory.words[0] = -1
    memory.words[2] = 4
    const answer = calls.getsockopt(fd, level, name, memory.address, memory.address + 8)
    return answer < 0 ? answer : (memory.words[0] ?? -1)
  }

  write(fd: number, text: string): number {
    const { calls, memory } = this
    return calls.write(fd, memory.address, memory.bytes.write(text))
  }

  /** What there is to read, or the negative answer. */
  read(fd: number): string | number {
    const { calls, memory } = this
    const count = calls.read(fd, memory.address, memory.bytes.length)
    return count < 0 ? count : memory.bytes.toString('latin1', 0, count)
  }

  #address(call: (address: number, length: number) => number): Bind {
    const memory = this.calls.allocate(40)
    memory.words[8] = sockaddrLength.IPv6
    const answer = call(memory.address, memory.address + 32)
    if (answer < 0) throw new Error(`no address: ${answer}`)
    return readSockaddr(memory, 0)
  }
}
