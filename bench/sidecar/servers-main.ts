import { readFileSync } from 'node:fs'
import { createSocket } from 'node:dgram'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerHttp } from '../backends/servers.ts'
import { answerCalls } from '../process/child.ts'
import type { Endpoint } from '../services.ts'

/**
 * What a server does with a connection. `http`: what pods serve. `greets`: says a line and closes.
 * `answers`: the same once it has heard something. `closes`: ends it before a byte, every
 * other time by a reset. `checked`: what an HTTP or Redis check wants to hear; `GET /primary`
 * is answered with 200 only at the address of the primary. `postgres`: the question for a
 * password. `fast`, `slow`: a line for each line, one client after another, in 2 and 20 ms.
 * `holds`: a line after 20 ms, for all at once.
 */
export type Behaviour =
  | 'http'
  | 'greets'
  | 'answers'
  | 'closes'
  | 'checked'
  | 'postgres'
  | 'fast'
  | 'slow'
  | 'holds'

/** What `GET /primary` is answered with, by the address that is asked. */
let primary = ''

/** Reads what comes, so that an end is seen. */
const listening = (socket: Socket): Socket => socket.resume()

const answerOf = (heard: Buffer, address: string): string => {
  if (heard[0] !== 'G'.charCodeAt(0)) return '+PONG\r\n'
  const isUp = !heard.includes('/primary') || address === primary
  const status = isUp ? '200 OK' : '503 Service Unavailable'
  return `HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
}

/** One client after another, each for `ms`. */
const serial = (ms: number) => {
  let free = Promise.resolve()
  return (socket: Socket): void => {
    socket.once('data', () => {
      free = free.then(() => sleep(ms)).then(() => void socket.end('hello\n'))
    })
  }
}

const holdMs = 20

/** The most connections that one server had at a time. */
let most = 0

const hex = (value: number, digits: number): string =>
  value.toString(16).toUpperCase().padStart(digits, '0')

/** Of the address and port that a socket has come to: those that neither side has ended (proc(5)). */
const established = ({ localPort = 0, localAddress = '' }: Socket): number => {
  const octets = localAddress.replace('::ffff:', '').split('.').map(Number)
  const local = `${octets
    .toReversed()
    .map(octet => hex(octet, 2))
    .join('')}:${hex(localPort, 4)}`
  const lines = readFileSync('/proc/self/net/tcp', 'utf8').split('\n')
  return lines.filter(line => line.includes(` ${local} `) && / 01 /.test(line)).length
}

/** A new client may be accepted before the end is read that has come before it: the kernel tells. */
const count = (socket: Socket, open: Set<Socket>): void => {
  open.add(socket)
  if (open.size > most) most = Math.max(most, Math.min(open.size, established(socket)))
  for (const event of ['end', 'close']) socket.on(event, () => open.delete(socket))
}

const behaviours: Readonly<Record<Behaviour, (socket: Socket, turn: number) => void>> = {
  fast: serial(2),
  slow: serial(20),
  holds: socket =>
    void socket.once('data', () => setTimeout(() => socket.end('hello\n'), holdMs)),
  http: answerHttp,
  greets: socket => listening(socket).end('hello\n'),
  /** Waits for a line first. */
  answers: socket => void socket.once('data', () => socket.end('hello\n')),
  closes: (socket, turn) =>
    turn % 2 === 0 ? listening(socket).end() : socket.resetAndDestroy(),
  checked: socket =>
    void socket.once('data', heard =>
      socket.end(answerOf(heard, (socket.localAddress ?? '').replace('::ffff:', ''))),
    ),
  /** The end of a StartupMessage, and the question for a password. */
  postgres: socket =>
    void socket.on('data', heard =>
      heard.readInt32BE(Math.min(4, heard.length - 4)) === 80_877_103
        ? socket.write('N')
        : socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])),
    ),
}

/** Rejects when the port is taken. */
const listen = (behaviour: Behaviour, { address, port }: Endpoint): Promise<void> =>
  new Promise((resolve, reject) => {
    let turn = 0
    const open = new Set<Socket>()
    const server = createServer(socket => {
      count(socket, open)
      socket.on('error', () => socket.destroy())
      behaviours[behaviour](socket, (turn += 1))
    })
    server.once('error', reject)
    server.listen({ host: address, port, backlog: 4096 }, () => resolve())
  })

/** Two octets after each datagram tell which of the servers has answered. */
const echoDatagrams = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = createSocket('udp4').once('error', reject)
    socket.on('message', (message, { port, address }) => {
      const { port: own } = socket.address()
      socket.send(Buffer.concat([message, Buffer.of(own >> 8, own & 255)]), port, address)
    })
    socket.bind(0, host, () => {
      // What can't be sent back is lost, and counted by who waits for it.
      socket.off('error', reject).on('error', () => undefined)
      resolve(socket.address().port)
    })
  })

const echoBytes = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, socket => {
      socket.on('error', () => socket.destroy())
      socket.on('data', heard => socket.write(heard))
    })
    server.once('error', reject)
    server.listen({ host, port: 0, backlog: 4096 }, () =>
      resolve((server.address() as AddressInfo).port),
    )
  })

const calls = {
  listen,
  /** So many echoes at ports of their own, which the system chooses. */
  echo: (protocol: 'TCP' | 'UDP', host: string, servers: number): Promise<number[]> =>
    Promise.all(
      Array.from({ length: servers }, () =>
        protocol === 'TCP' ? echoBytes(host) : echoDatagrams(host),
      ),
    ),
  /** From now on the primary is there; '' for none. */
  setPrimary: (address: string): void => void (primary = address),
  most: (): number => most,
}
export type ServerCalls = typeof calls
answerCalls(calls)
