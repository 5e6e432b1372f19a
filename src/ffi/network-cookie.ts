import { openCLibrary } from './c-library.ts'
import { AF_INET, SOCK_CLOEXEC, SOCK_DGRAM, SOL_SOCKET } from './constants.ts'

/** Linux 5.14. */
const SO_NETNS_COOKIE = 71

/**
 * By what the kernel knows this process's network namespace, and never another one; undefined before
 * Linux 5.14. Throws where there is no FFI.
 */
export const networkCookie = (): bigint | undefined => {
  const library = openCLibrary()
  const open = library.func('int socket(int, int, int)')
  const ask = library.func('int getsockopt(int, int, int, int64_t, int64_t)')
  const close = library.func('int close(int)')
  const value = library.allocate(8)
  const length = library.allocate(8)
  length.view.setUint32(0, 8, true)
  const socket = open(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (socket < 0) return undefined
  const args = [SOL_SOCKET, SO_NETNS_COOKIE, value.address, length.address]
  const answer = ask(socket, ...args)
  close(socket)
  return answer < 0 ? undefined : value.view.getBigUint64(0, true)
}
