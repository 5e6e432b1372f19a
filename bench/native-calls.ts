import { structLayout, type StructLayout } from '#usher/ffi/struct-layout'
import { loadSyscalls, type Syscalls } from '#usher/ffi/syscalls'

/* All that the bench takes of the Linux relay: the calls by which UDP load keeps up with it. */
export {
  AF_INET,
  AF_INET6,
  EPOLLIN,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOL_SOCKET,
  SO_RCVBUF,
} from '#usher/ffi/constants'
export { errno, errnoName, systemError } from '#usher/ffi/errno'
export { EventLoop, type EventSource } from '#usher/relay/engine/event-loop'
export { readSockaddr, writeSockaddr } from '#usher/relay/engine/sockaddr'
export { iovec, msghdr, sockaddrSize } from '#usher/ffi/struct-layout'
export { type NativeMemory, type Syscalls, loadSyscalls } from '#usher/ffi/syscalls'

/** What the Linux relay, and a UDP generator and echo that can keep up with it, need. */
export interface NativeCalls {
  readonly calls: Syscalls
  readonly layout: StructLayout
}

/** The system calls, or in words why they can't be made here: it is tried. */
export const nativeCalls = (): NativeCalls | string => {
  const layout = structLayout()
  if (layout === undefined)
    return `the Linux relay knows no ${process.platform} on ${process.arch}`
  try {
    return { calls: loadSyscalls(), layout }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'MODULE_NOT_FOUND'
      ? 'koffi is missing: install it with `npm install koffi`'
      : `koffi does not run here: ${message.trim().split('\n')[0]}`
  }
}
