import type { RelayProtocol } from '../../../model/service.ts'
import { familyOf, type IpFamily, isWildcard, joinHostPort } from '../../../util/ip.ts'
import { placeSocket, type PlacedSocket } from '../../../util/placed-socket.ts'
import { accessOf, isUnix, unixPath } from '../../../util/unix-address.ts'
import type { Bind } from '../../relay.ts'
import type { ListeningLayer, OpenedSockets } from '../../engine/socket-layer.ts'
import * as c from '../../../ffi/constants.ts'
import { systemError } from '../../../ffi/errno.ts'
import { KeepAlive, type KeepAliveLimits } from '../../engine/keep-alive.ts'
import { Linger } from '../../engine/linger.ts'
import { writeSockaddr } from '../../engine/sockaddr.ts'
import { mostSockaddrBytes } from '../../../ffi/struct-layout.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096
/** Room for a burst of datagrams while a worker does something else. */
const receiveBytes = 4 << 20

const optionAt = Math.ceil(mostSockaddrBytes / 4) * 4

/**
 * Opens the sockets that workers serve. Options of accepted sockets are set on the one that
 * listens, which hands them on: no call per connection.
 */
export class LinuxListening implements ListeningLayer {
  readonly keepsPorts = true
  readonly #calls: Syscalls
  readonly #memory: NativeMemory
  readonly #linger: Linger
  readonly #keepAlive: KeepAlive

  constructor(calls: Syscalls, limits: KeepAliveLimits) {
    this.#calls = calls
    this.#memory = calls.allocate(optionAt + 8)
    this.#linger = new Linger(calls)
    this.#keepAlive = new KeepAlive(calls, limits)
  }

  /**
   * `count` sockets at one address among which the kernel shares clients out, in their
   * order. Throws with the errno's name as `code`, and leaves none open. `isIdle`: they are
   * bound, and yet to listen.
   *
   * Only when the first has the address do they all become SO_REUSEPORT: it would join a
   * stranger's group otherwise, unnoticed, with two proxies on one port. (A later
   * program of the same user may still join this one, if it says SO_REUSEPORT at once: which is
   * why the process has a user of its own, where it can: proxy/own-process.ts.)
   */
  async open(
    protocol: RelayProtocol,
    bind: Bind,
    count: number,
    isIdle = false,
  ): Promise<OpenedSockets> {
    if (isUnix(bind.address)) return this.#openUnix(bind, count)
    return { fds: this.#openPort(protocol, bind, count, isIdle), file: undefined }
  }

  #openPort(
    protocol: RelayProtocol,
    bind: Bind,
    count: number,
    isIdle: boolean,
  ): number[] {
    const family = familyOf(bind.address)
    if (family === undefined) throw new Error(`${bind.address} is not an IP address`)
    const fds: number[] = []
    try {
      for (let i = 0; i < count; i += 1) {
        const fd = this.#socket(protocol, family, bind)
        fds.push(fd)
        if (protocol === 'TCP') this.#must(bind, this.#linger.reset(fd))
        if (i > 0) this.#must(bind, this.#set(fd, c.SOL_SOCKET, c.SO_REUSEPORT, 1))
        this.#bind(fd, bind)
        if (i === 0 && count > 1) this.#set(fd, c.SOL_SOCKET, c.SO_REUSEPORT, 1)
      }
      if (protocol === 'TCP' && !isIdle) for (const fd of fds) this.listen(fd, bind)
      return fds
    } catch (error) {
      for (const fd of fds) this.#calls.close(fd)
      throw error
    }
  }

  /**
   * The same for a unix socket, of which there is one: each worker has a descriptor of it, and the
   * one that is the quickest accepts. Rejects with CANNOT_LISTEN where there can be no such file.
   */
  async #openUnix(bind: Bind, count: number): Promise<OpenedSockets> {
    const path = unixPath(bind.address)
    const fd = this.#calls.socket(
      c.AF_UNIX,
      c.SOCK_STREAM | c.SOCK_NONBLOCK | c.SOCK_CLOEXEC,
      0,
    )
    if (fd < 0) throw systemError('socket', fd)
    const fds = [fd]
    let file: PlacedSocket | undefined
    try {
      const listen = (at: string): void => {
        this.#bind(fd, { address: `unix:${at}`, port: 0 })
        this.listen(fd, bind)
      }
      if (path.startsWith('\0')) listen(`@${path.slice(1)}`)
      else file = await placeSocket(path, accessOf(bind.address), listen)
      while (fds.length < count) fds.push(this.#copyOf(fd))
      return { fds, file }
    } catch (error) {
      file?.remove()
      for (const each of fds) this.#calls.close(each)
      throw error
    }
  }

  #copyOf(fd: number): number {
    const copy = this.#calls.fcntl(fd, c.F_DUPFD_CLOEXEC, 0)
    if (copy < 0) throw systemError('fcntl', copy)
    return copy
  }

  #socket(protocol: RelayProtocol, family: IpFamily, bind: Bind): number {
    const domain = family === 'IPv4' ? c.AF_INET : c.AF_INET6
    const kind = protocol === 'TCP' ? c.SOCK_STREAM : c.SOCK_DGRAM
    const fd = this.#calls.socket(domain, kind | c.SOCK_NONBLOCK | c.SOCK_CLOEXEC, 0)
    if (fd < 0) throw systemError('socket', fd)
    if (family === 'IPv6') this.#set(fd, c.IPPROTO_IPV6, c.IPV6_V6ONLY, 1)
    if (protocol === 'TCP') this.#setTcpOptions(fd)
    else this.#setUdpOptions(fd, family, bind)
    return fd
  }

  #setTcpOptions(fd: number): void {
    // Old connections in TIME_WAIT don't keep the port, as everywhere.
    this.#set(fd, c.SOL_SOCKET, c.SO_REUSEADDR, 1)
    this.#set(fd, c.IPPROTO_TCP, c.TCP_NODELAY, 1)
    this.#keepAlive.set(fd)
  }

  #setUdpOptions(fd: number, family: IpFamily, { address }: Bind): void {
    const forced = this.#set(fd, c.SOL_SOCKET, c.SO_RCVBUFFORCE, receiveBytes)
    // Without CAP_NET_ADMIN net.core.rmem_max is the most there is.
    if (forced < 0) this.#set(fd, c.SOL_SOCKET, c.SO_RCVBUF, receiveBytes)
    if (!isWildcard(address)) return
    if (family === 'IPv4') this.#set(fd, c.IPPROTO_IP, c.IP_PKTINFO, 1)
    else this.#set(fd, c.IPPROTO_IPV6, c.IPV6_RECVPKTINFO, 1)
  }

  #bind(fd: number, bind: Bind): void {
    const length = writeSockaddr(this.#memory, 0, bind.address, bind.port)
    this.#must(bind, this.#calls.bind(fd, this.#memory.address, length))
  }

  listen(fd: number, bind: Bind): void {
    this.#must(bind, this.#calls.listen(fd, backlog))
  }

  #set(fd: number, level: number, option: number, value: number): number {
    this.#memory.view.setInt32(optionAt, value, true)
    const at = this.#memory.address + optionAt
    return this.#calls.setsockopt(fd, level, option, at, 4)
  }

  #must({ address, port }: Bind, result: number): void {
    if (result < 0) throw systemError(`listen on ${joinHostPort(address, port)}`, result)
  }
}
