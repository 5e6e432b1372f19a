import { structLayout, type StructLayout } from '../src/ffi/struct-layout.ts'
import { loadSyscalls, type Syscalls } from '../src/ffi/syscalls.ts'

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
} from '../src/ffi/constants.ts'
export { errno, errnoName, systemError } from '../src/ffi/errno.ts'
export { EventLoop, type EventSource } from '../src/relay/engine/event-loop.ts'
export { readSockaddr, writeSockaddr } from '../src/relay/engine/sockaddr.ts'
export { iovec, msghdr, sockaddrSize } from '../src/ffi/struct-layout.ts'
export { type NativeMemory, type Syscalls, loadSyscalls } from '../src/ffi/syscalls.ts'

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
