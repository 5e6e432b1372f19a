import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { programFile } from '../../src/util/own-files.ts'
import { nativeCalls } from '../native-calls.ts'

/** New connections that may wait to be accepted: bursts of them are what is measured. */
export const backlog = 4096

/** Serves `handle` on a TCP port that the system chooses, and resolves with it. */
const listenTcp = (host: string, handle: (socket: Socket) => void): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, socket => {
      // A run ends with its clients leaving in the middle: what went wrong before that
      // is counted where it matters, at the client.
      socket.on('error', () => socket.destroy())
      handle(socket)
    })
    server.once('error', reject)
    server.listen({ port: 0, host, backlog }, () => {
      resolve((server.address() as AddressInfo).port)
    })
  })

const headEnd = '\r\n\r\n'
/** No request for `/64` has a longer head. */
const longestHead = 16 * 1024

/**
 * As little of HTTP/1.1 (RFC 9112) as generators need, for where there is no nginx: GET,
 * kept connections, pipelining, `Connection: close`. A body that a request announces
 * would be taken for the next one.
 */
export const serveHttp = (host: string): Promise<number> => listenTcp(host, answerHttp)

/** The same on one connection. */
export const answerHttp = (socket: Socket): void => {
  let rest = ''
  socket.on('data', chunk => {
    // Latin-1 has a character for every byte, and is the fastest to make.
    const heads = (rest + chunk.toString('latin1')).split(headEnd)
    rest = heads.pop() ?? ''
    if (rest.length > longestHead) socket.destroy()
    heads.every(head => answer(socket, head))
  })
}

/** False when nothing after this request is to be answered. */
const answer = (socket: Socket, head: string): boolean => {
  const [, path = '', version] = /^GET (\S+) HTTP\/1\.([01])\r?\n?/.exec(head) ?? []
  const { keep, close } = responses.get(path) ?? notFound
  if (version === '1' && !/^connection:[ \t]*close/im.test(head))
    return socket.write(keep) || true
  socket.end(close)
  return false
}

interface Response {
  readonly keep: Buffer
  readonly close: Buffer
}

const response = (status: string, bytes: number): Response => {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n`
  const body = 'u'.repeat(bytes)
  return {
    keep: Buffer.from(`${head}\r\n${body}`),
    close: Buffer.from(`${head}Connection: close\r\n\r\n${body}`),
  }
}

const notFound = response('404 Not Found', 0)
const responses: ReadonlyMap<string, Response> = new Map([
  ['/64', response('200 OK', 64)],
  ['/16384', response('200 OK', 16_384)],
])

/** The sink acknowledges each of so many bytes received with one byte. */
export const ackedBytes = 1024 * 1024

/**
 * Reads without end. The acknowledgements let the client count what has arrived
 * instead of what it has written, which may still sit in buffers on the way.
 */
export const serveSink = (host: string): Promise<number> =>
  listenTcp(host, socket => {
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
      const acks = Math.floor(received / ackedBytes)
      if (acks === 0) return
      received -= acks * ackedBytes
      socket.write(Buffer.alloc(acks))
    })
  })

/** Sends without end, as fast as the client reads. */
export const serveSource = (host: string): Promise<number> => {
  const block = Buffer.alloc(256 * 1024, 'usher')
  return listenTcp(host, socket => {
    const fill = (): void => {
      while (!socket.destroyed && socket.write(block));
    }
    socket.on('drain', fill)
    socket.resume()
    fill()
  })
}

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

const mostFillers = 16
/** A loopback connection that takes longer has met a full queue. */
const connectsWithinMs = 300

/**
 * A port that takes no connection and does not refuse any, without privileges: a thread
 * listens with the smallest queue and then sleeps for ever, and the queue is filled. The
 * kernel drops further SYNs, as if the host were gone (tcp(7), listen(2)).
 */
export const keepSilentPort = async (host: string): Promise<number> => {
  const thread = new Worker(program, { eval: true, workerData: host })
  const [port] = (await once(thread, 'message')) as [number]
  // Ends with the process, however that ends.
  thread.unref()
  const near = host === '0.0.0.0' ? '127.0.0.1' : host
  for (let fillers = 0; fillers < mostFillers; fillers += 1) {
    const filler = connect(port, near)
    filler.on('error', () => undefined)
    if (!(await connects(filler))) return port
  }
  throw new Error('the queue of the silent port could not be filled')
}

const program = `
  const { parentPort, workerData } = require('node:worker_threads')
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: workerData, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`

const connects = (socket: Socket): Promise<boolean> =>
  new Promise(resolve => {
    const timer = setTimeout(() => resolve(false), connectsWithinMs)
    socket.once('connect', () => {
      clearTimeout(timer)
      resolve(true)
    })
  })

const wanted = 32
/** Ports below 1024 stay closed: they are neither ephemeral ports nor given for port 0. */
const highest = 1023

/** Some low ports that refuse connections. Rejects when there are not enough. */
export const findClosedPorts = async (host: string): Promise<readonly number[]> => {
  const near = host === '0.0.0.0' ? '127.0.0.1' : host
  const closed: number[] = []
  for (let port = 1; port <= highest && closed.length < wanted; port += 1)
    if (await refuses(near, port)) closed.push(port)
  if (closed.length === wanted) return closed
  throw new Error(`only ${closed.length} of the ports up to ${highest} are closed`)
}

const refuses = (host: string, port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, host)
    const finish = (refused: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(refused)
    }
    const timer = setTimeout(() => finish(false), 200)
    socket.once('connect', () => finish(false))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      finish(error.code === 'ECONNREFUSED'),
    )
  })
