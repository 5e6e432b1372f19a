import { once } from 'node:events'
import { linkSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { unixPath } from '../../src/util/unix-address.ts'
import { until } from './until.ts'

/** A folder for sockets; removed when the test ends. */
export const socketFolder = (t: Test): string => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface UnixBackend {
  readonly endpoint: RelayEndpoint
  readonly server: Server
  readonly sockets: Set<Socket>
}

/** A real server on a unix socket (`unix:/...`), as `tcpBackend`; it may read nothing. */
export const unixBackend = async (
  t: Test,
  address: string,
  serve: (socket: Socket) => void,
  pauseOnConnect = false,
): Promise<UnixBackend> => {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, pauseOnConnect }, socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    serve(socket)
  })
  server.listen({ path: unixPath(address) })
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  })
  return { endpoint: { key: address, address, port: 0 }, server, sockets }
}

/** A client of a unix socket; destroyed when the test ends. */
export const dialUnix = (t: Test, address: string): Socket => {
  const socket = connect({ path: unixPath(address), allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  return socket
}

/** All that comes until the end, which it answers, and how it ended: `end`, or the name of an error. */
export const readToEnd = (socket: Socket): Promise<{ bytes: Buffer; how: string }> =>
  new Promise(resolve => {
    const pieces: Buffer[] = []
    const done = (how: string): void => resolve({ bytes: Buffer.concat(pieces), how })
    socket.on('data', piece => pieces.push(piece))
    socket.on('end', () => {
      socket.end()
      done('end')
    })
    socket.on('error', (error: NodeJS.ErrnoException) =>
      done(error.code ?? error.message),
    )
  })

/** Listens without accepting until it is told to go on: its queue is soon full. */
const fullServer = `
  const { workerData: { path, gate } } = require('node:worker_threads')
  const server = require('node:net').createServer(socket => socket.end('served'))
  server.listen({ path, backlog: 1 }, () => {
    Atomics.store(gate, 0, 1)
    Atomics.notify(gate, 0)
    Atomics.wait(gate, 0, 1)
  })`

/** A server whose queue is full; it serves all when it is told to. */
export const fullUnixBackend = async (t: Test, address: string): Promise<() => void> => {
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { path: unixPath(address), gate }
  const server = new Worker(fullServer, { eval: true, workerData })
  const accept = (): void => {
    Atomics.store(gate, 0, 2)
    Atomics.notify(gate, 0)
  }
  t.teardown(() => {
    accept()
    return server.terminate()
  })
  await until('it listens', () => Atomics.load(gate, 0) === 1)
  const others = Array.from({ length: 4 }, () =>
    dialUnix(t, address).on('error', () => {}),
  )
  // Two have a place in its queue; the others are told at once that there is none.
  await Promise.all(others.slice(0, 2).map(other => once(other, 'connect')))
  return accept
}

/** The file of a socket on which nobody listens any more. */
export const deadSocket = async (path: string): Promise<void> => {
  const server = createServer().listen({ path: `${path}~` })
  await once(server, 'listening')
  linkSync(`${path}~`, path)
  server.close()
  await once(server, 'close')
}
