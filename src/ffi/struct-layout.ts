import { arch, endianness, platform } from 'node:os'

/**
 * Where fields lie in the kernel's structures. Those of 64-bit Linux are the same for
 * glibc and musl: where musl declares an int and a padding, the kernel reads one 64-bit
 * number, and little-endian zeros make them equal.
 */
export interface StructLayout {
  /**
   * 32-bit words of struct epoll_event, and the first word of its data: packed on x86-64
   * only (include/uapi/linux/eventpoll.h, EPOLL_PACKED).
   */
  readonly epollEventWords: number
  readonly epollDataWord: number
}

/** Undefined for a platform whose structures have not been looked up. */
export const structLayout = (
  system: string = platform(),
  processor: string = arch(),
): StructLayout | undefined => {
  if (system !== 'linux' || endianness() !== 'LE') return undefined
  if (processor === 'x64') return { epollEventWords: 3, epollDataWord: 1 }
  if (processor === 'arm64') return { epollEventWords: 4, epollDataWord: 2 }
  return undefined
}

/** struct iovec: base, length. */
export const iovec = { size: 16, base: 0, length: 8 } as const

/** struct msghdr, and struct mmsghdr, which adds the length of what was moved. */
export const msghdr = {
  name: 0,
  nameLength: 8,
  iov: 16,
  iovLength: 24,
  control: 32,
  controlLength: 40,
  flags: 48,
  /** Of mmsghdr. */
  moved: 56,
  size: 64,
} as const

/** struct cmsghdr; data follows, everything aligned to 8 bytes. */
export const cmsghdr = { length: 0, level: 8, type: 12, data: 16 } as const

/** struct in_pktinfo and in6_pktinfo. */
export const pktinfo = { size: 12, index: 0, source: 4, destination: 8 } as const
export const pktinfo6 = { size: 20, address: 0, index: 16 } as const

/** struct pollfd: `events` with `revents` behind it, which the kernel writes. */
export const pollfd = { fd: 0, events: 4 } as const

/** struct ucred: process, user and group at the other end of a unix socket. */
export const ucred = { size: 12, pid: 0, uid: 4 } as const

/** Fields of struct tcp_info; bytes. */
export const tcpInfo = {
  lastDataReceived: 52,
  rtt: 68,
  totalRetransmits: 100,
  size: 104,
} as const

/** Big enough for sockaddr_in6: for any address that comes from the kernel. */
export const sockaddrSize = 28

/** Struct sockaddr_un, the longest of all that it is given: a family, and a path with its zero. */
export const mostSockaddrBytes = 110
