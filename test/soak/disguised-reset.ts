import type { Socket } from 'node:net'
import { SO_ERROR, SOL_SOCKET } from '../../src/ffi/constants.ts'
import { errnoName } from '../../src/ffi/errno.ts'
import { loadSyscalls } from '../../src/ffi/syscalls.ts'

/**
 * Tells an end from a reset. When a reset comes right behind the last bytes, libuv reads
 * those and takes the hang-up for an end (uv__stream_io), though the socket has an error.
 */
const makeDisguisedReset = (): ((socket: Socket) => string) => {
  try {
    const calls = loadSyscalls()
    const { address, words } = calls.allocate(8)
    return socket => {
      const { _handle: handle } = socket as Socket & { _handle: { fd: number } | null }
      if (handle === null) return ''
      words.set([0, 4])
      calls.getsockopt(handle.fd, SOL_SOCKET, SO_ERROR, address, address + 4)
      return words[0] === 0 ? '' : errnoName(-(words[0] ?? 0))
    }
  } catch {
    // Without system calls some resets are taken for ends.
    return () => ''
  }
}

/** For the handler of `end`: the errno's name where it was a reset, else ''. */
export const disguisedReset = makeDisguisedReset()
