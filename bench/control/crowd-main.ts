import { connect, type Socket } from 'node:net'
import { answerCalls } from '../process/child.ts'

/* Clients that nobody wants, in a process of their own: some slow, some hostile, all come back. */

/** None of them is the address that the bench asks from. */
const localAddress = '127.0.0.9'
const backAfterMs = 1000
const slowEveryMs = 500

type Behaviour = (socket: Socket, path: string) => void

const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n`

/** A header, one byte at a time. */
const slow: Behaviour = (socket, path) => {
  socket.write(request(path))
  const timer = setInterval(() => socket.write('x'), slowEveryMs)
  socket.once('close', () => clearInterval(timer))
}

const hostile: readonly Behaviour[] = [
  // Takes nothing of what it has asked for.
  (socket, path) => socket.pause().write(`${request(path)}\r\n`),
  (socket, path) => socket.pause().write(`${request(path)}\r\n`.repeat(100)),
  socket => socket.write(Buffer.alloc(64 * 1024, 0xff)),
  (socket, path) => socket.write(`${request(path)}X: ${'x'.repeat(60_000)}`),
  socket => socket.resetAndDestroy(),
  // Says nothing.
  () => {},
]

const comeAndComeBack = (address: string, path: string, behave: Behaviour): void => {
  const [host = '', port] = address.split(':')
  const socket = connect({ host, port: Number(port), localAddress })
  socket.once('connect', () => behave(socket, path))
  socket.on('error', () => {})
  socket.once('close', () =>
    setTimeout(() => comeAndComeBack(address, path, behave), backAfterMs),
  )
}

/** So many of each kind, over all servers: `host:port`, and a path that it knows. */
const crowd = (
  servers: readonly (readonly [address: string, path: string])[],
  clients: number,
): void => {
  for (let i = 0; i < clients; i += 1) {
    const [address, path] = servers[i % servers.length] ?? ['', '']
    comeAndComeBack(address, path, slow)
    comeAndComeBack(address, path, hostile[i % hostile.length] ?? slow)
  }
}

const calls = { crowd }
export type CrowdCalls = typeof calls
answerCalls(calls)
