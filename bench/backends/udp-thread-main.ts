import { parentPort, workerData } from 'node:worker_threads'
import {
  AF_INET,
  SO_RCVBUF,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOL_SOCKET,
} from '../../src/ffi/constants.ts'
import { systemError } from '../../src/ffi/errno.ts'
import { loadSyscalls } from '../../src/ffi/syscalls.ts'
import { readSockaddr, writeSockaddr } from '../../src/relay/engine/sockaddr.ts'
import { MessageBatch } from '../native-calls.ts'

/** The thread of an echo (see udp.ts): tells its port, then waits in the kernel for datagrams. */

/** Include/uapi/linux/socket.h and asm-generic/socket.h: the same on every 64-bit Linux. */
const MSG_WAITFORONE = 0x10000
const SO_RCVTIMEO = 20

const batch = 64
const roomBytes = 2048
/** The kernel gives less where net.core.rmem_max says so. */
const receiveBuffer = 4 * 1024 * 1024
/** Between two waits the thread can be ended. */
const waitMicroseconds = 100_000

const port = parentPort
if (port === null) throw new Error('this is a thread; it can not run by itself')
const calls = loadSyscalls()

const checked = (what: string, result: number): number => {
  if (result < 0) throw systemError(what, result)
  return result
}

const open = (host: string): number => {
  const fd = checked('socket', calls.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))
  const value = calls.allocate(32)
  value.words[0] = receiveBuffer
  checked('SO_RCVBUF', calls.setsockopt(fd, SOL_SOCKET, SO_RCVBUF, value.address, 4))
  value.words.fill(0)
  value.words[2] = waitMicroseconds
  checked('SO_RCVTIMEO', calls.setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, value.address, 16))
  const length = writeSockaddr(value, 0, host, 0)
  checked('bind', calls.bind(fd, value.address, length))
  return fd
}

const portOf = (fd: number): number => {
  const name = calls.allocate(32)
  const length = calls.allocate(8)
  length.words[0] = 28
  checked('getsockname', calls.getsockname(fd, name.address, length.address))
  return readSockaddr(name, 0).port
}

const fd = open(String(workerData))
const memory = calls.allocate(batch * roomBytes)
const messages = new MessageBatch(calls, batch, true)
for (let at = 0; at < batch; at += 1)
  messages.put(at, memory.address + at * roomBytes, roomBytes)

/** One turn; what can't be sent back the client sees as lost, and it is counted there. */
const echo = (): void => {
  const count = calls.recvmmsg(fd, messages.address, batch, MSG_WAITFORONE)
  if (count <= 0) return
  for (let at = 0; at < count; at += 1) messages.setLength(at, messages.moved(at))
  calls.sendmmsg(fd, messages.address, count, 0)
  for (let at = 0; at < count; at += 1) {
    messages.setLength(at, roomBytes)
    messages.forgetName(at)
  }
}

port.postMessage(portOf(fd))
for (;;) echo()
