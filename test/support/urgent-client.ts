import type { Test } from 'tap'
import { AF_INET, SOCK_STREAM } from '../../src/ffi/constants.ts'
import { loadSyscalls } from '../../src/ffi/syscalls.ts'
import { writeSockaddr } from '../../src/relay/engine/sockaddr.ts'
import { testHost } from './ports.ts'

/** Of send(2): the last byte is urgent (tcp(7)). */
export const MSG_OOB = 1

/** A client of a port of the test's host that may say something urgent. */
export const urgentClient = (
  t: Test,
  port: number,
): ((text: string, flags: number) => void) => {
  const calls = loadSyscalls()
  const memory = calls.allocate(64)
  const fd = calls.socket(AF_INET, SOCK_STREAM, 0)
  t.teardown(() => calls.close(fd))
  const length = writeSockaddr(memory, 0, testHost, port)
  t.equal(calls.connect(fd, memory.address, length), 0)
  return (text, flags) => {
    memory.bytes.write(text)
    t.equal(calls.send(fd, memory.address, text.length, flags), text.length)
  }
}
