import { createSocket } from 'node:dgram'
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { programFile } from '../../src/util/own-files.ts'
import { nativeCalls } from '../native-calls.ts'

/** The kernel gives less where net.core.rmem_max says so. */
const receiveBuffer = 4 * 1024 * 1024

/** Compiled, as a thread of TypeScript takes a second to start. */
const echoThread = programFile('bench-backends-udp-thread-main')

/**
 * Sends each datagram back to where it came from: many at once in a thread of its own,
 * where such system calls can be made, or else as node does.
 */
export const serveUdp = (host: string): Promise<number> =>
  typeof nativeCalls() === 'string' || !existsSync(echoThread)
    ? serveUdpByNode(host)
    : serveUdpByThread(host)

const serveUdpByThread = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const thread = new Worker(echoThread, { workerData: host, execArgv: [], env: {} })
    thread.once('error', reject)
    thread.once('message', resolve)
  })

/** Sends each datagram back to where it came from, one by one. */
const serveUdpByNode = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = createSocket({
      type: 'udp4',
      recvBufferSize: receiveBuffer,
      // Node's own asks dns.lookup() about every address it sends to, a turn each.
      lookup: (address, _options, done) => done(null, address, 4),
    })
    socket.once('error', reject)
    socket.on('message', (message, { port, address }) =>
      socket.send(message, port, address),
    )
    socket.bind(0, host, () => {
      // What can't be sent back the client sees as lost, and it is counted there.
      socket.off('error', reject).on('error', () => undefined)
      resolve(socket.address().port)
    })
  })
