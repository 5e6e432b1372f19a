import type { AddressPort } from '../../../util/ip.ts'
import {
  IP_MULTICAST_TTL,
  IP_RECVTTL,
  IP_TTL,
  IPPROTO_IP,
  IPPROTO_IPV6,
  IPPROTO_TCP,
  IPV6_MULTICAST_HOPS,
  IPV6_RECVHOPLIMIT,
  IPV6_UNICAST_HOPS,
  SIOCINQ,
  SIOCOUTQ,
  SIOCOUTQNSD,
  SO_ERROR,
  SO_ORIGINAL_DST,
  SO_SNDBUF,
  SOL_SOCKET,
  TCP_INFO,
  TCP_NODELAY,
} from '../../../ffi/constants.ts'
import { proxyHeader } from '../../../util/proxy-header.ts'
import type { Connection } from './connection.ts'
import { readSockaddr } from '../sockaddr.ts'
import { sockaddrSize, tcpInfo } from '../../../ffi/struct-layout.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'

/** As much as a pipe takes. */
const mostSendRoom = 1 << 20

/** Where the length of an answer is in the memory, behind the longest answer. */
const lengthAt = Math.max(2 * sockaddrSize, Math.ceil(tcpInfo.size / 4) * 4)

/** What the kernel says of a TCP socket, and the options that it is given (tcp(7)). */
export class SocketCalls {
  readonly #calls: Syscalls
  readonly #result: NativeMemory

  constructor(calls: Syscalls) {
    this.#calls = calls
    this.#result = calls.allocate(lengthAt + 4)
  }

  /** Bytes written that the peer has not acknowledged. */
  unacknowledged(fd: number): number {
    return fd < 0 ? 0 : Math.max(this.#queued(fd, SIOCOUTQ), 0)
  }

  /** Bytes that a socket has taken and the kernel has not. */
  unwritten(fd: number): number {
    return fd < 0 ? 0 : Math.max(this.#queued(fd, SIOCOUTQNSD), 0)
  }

  hasUnread(fd: number): boolean {
    return this.#queued(fd, SIOCINQ) > 0
  }

  /** SO_ERROR as an errno, and taken from it: 0 for none. */
  error(fd: number): number {
    return this.#option(fd, SOL_SOCKET, SO_ERROR) ? (this.#result.words[0] ?? 0) : 0
  }

  /**
   * Bytes that fit into its send queue now, at most 1 MiB; 0 when the kernel does not say. So
   * much can be spliced at once, as nothing of it is going to be held: pieces of 1 MiB cost two
   * thirds of those of 192 KiB. What the peer has not acknowledged is still in the queue.
   */
  sendRoom(fd: number): number {
    if (!this.#option(fd, SOL_SOCKET, SO_SNDBUF)) return 0
    const size = this.#result.words[0] ?? 0
    const queued = this.#queued(fd, SIOCOUTQ)
    return queued < 0 ? 0 : Math.min(Math.max(0, size - queued), mostSendRoom)
  }

  /** The address that a client has come to; '' when it is gone again. */
  localAddress(fd: number): string {
    return this.localEnd(fd).address
  }

  /** The same with its port, which is 0 then. */
  localEnd(fd: number): AddressPort {
    this.#result.words[lengthAt / 4] = sockaddrSize
    const { address } = this.#result
    const result = this.#calls.getsockname(fd, address, address + lengthAt)
    return result < 0 ? { address: '', port: 0 } : readSockaddr(this.#result, 0)
  }

  /**
   * Where a client has dialled. `isSteered`: a rule of the kernel may have brought it here (iptables
   * REDIRECT and DNAT, and the same of nftables).
   */
  dialled(fd: number, isSteered: boolean): AddressPort {
    const local = this.localEnd(fd)
    if (!isSteered) return local
    const level = local.address.includes('.') ? IPPROTO_IP : IPPROTO_IPV6
    const isThere = this.#option(fd, level, SO_ORIGINAL_DST, sockaddrSize)
    return isThere ? readSockaddr(this.#result, 0) : local
  }

  /** By which each endpoint is told who the client is, made once; undefined where it is not. */
  headerOf(connection: Connection): Buffer | undefined {
    const { client, service, peer, dialled } = connection
    const { proxyProtocol, isSteered } = service
    if (proxyProtocol === undefined) return undefined
    return (connection.header ??= proxyHeader(
      proxyProtocol,
      peer,
      dialled ?? this.dialled(client.fd, isSteered),
    ))
  }

  /**
   * Whether a dial has met itself: on one host a dial to a port of the ephemeral range at which
   * there is no listener may be given that very port for its own, and then TCP's simultaneous
   * open connects it to itself (RFC 9293, 3.5).
   */
  isSelfConnected(fd: number): boolean {
    const { address, bytes, words } = this.#result
    bytes.fill(0)
    words[lengthAt / 4] = sockaddrSize
    this.#calls.getsockname(fd, address, address + lengthAt)
    words[lengthAt / 4] = sockaddrSize
    this.#calls.getpeername(fd, address + sockaddrSize, address + lengthAt)
    return bytes.compare(bytes, sockaddrSize, 2 * sockaddrSize, 0, sockaddrSize) === 0
  }

  /** Smoothed round-trip time in microseconds, and segments sent again; undefined if unknown. */
  roundTrip(fd: number): { rttUs: number; retransmits: number } | undefined {
    if (!this.#option(fd, IPPROTO_TCP, TCP_INFO, tcpInfo.size)) return undefined
    const { view } = this.#result
    return {
      rttUs: view.getUint32(tcpInfo.rtt, true),
      retransmits: view.getUint32(tcpInfo.totalRetransmits, true),
    }
  }

  /** Milliseconds since data came from the peer; undefined where it is not known. */
  sinceReceived(fd: number): number | undefined {
    if (!this.#option(fd, IPPROTO_TCP, TCP_INFO, tcpInfo.size)) return undefined
    return this.#result.view.getUint32(tcpInfo.lastDataReceived, true)
  }

  /**
   * The TTL, or hop limit, with which the client's packets came; 0 where it is not known. An accepted socket has
   * that of its handshake where others have what they send to groups (IP_PKTOPTIONS of TCP gives it so, too).
   */
  ttl(fd: number): number {
    const isKnown =
      this.#option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS) ||
      this.#option(fd, IPPROTO_IP, IP_MULTICAST_TTL)
    return isKnown ? (this.#result.words[0] ?? 0) : 0
  }

  /** Of what it sends. A unix socket has none. */
  setTtl(fd: number, ttl: number): void {
    this.#set(fd, IPV6_UNICAST_HOPS, IP_TTL, ttl)
  }

  /** Whether it says with which TTL each datagram comes, from now on. */
  reportTtl(fd: number): boolean {
    return this.#set(fd, IPV6_RECVHOPLIMIT, IP_RECVTTL, 1)
  }

  /** Switches Nagle's algorithm off. */
  noDelay(fd: number): void {
    this.#result.words[0] = 1
    this.#calls.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, this.#result.address, 4)
  }

  /** Bytes in a queue of it, or -errno. */
  #queued(fd: number, request: number): number {
    const { address, words } = this.#result
    const result = this.#calls.ioctl(fd, request, address)
    return result < 0 ? result : (words[0] ?? 0)
  }

  /** An option of IPv6, or of IPv4 where the socket is of that. */
  #set(fd: number, ofIpv6: number, ofIpv4: number, value: number): boolean {
    const { address, words } = this.#result
    words[0] = value
    const set = (level: number, name: number): boolean =>
      this.#calls.setsockopt(fd, level, name, address, 4) >= 0
    return set(IPPROTO_IPV6, ofIpv6) || set(IPPROTO_IP, ofIpv4)
  }

  /** Whether the kernel has answered. */
  #option(fd: number, level: number, name: number, size = 4): boolean {
    const { address, words } = this.#result
    words[lengthAt / 4] = size
    return this.#calls.getsockopt(fd, level, name, address, address + lengthAt) >= 0
  }
}
