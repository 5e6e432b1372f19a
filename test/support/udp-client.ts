import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'
import { afterUnserved, noDoubts } from '../../src/balance/doubts.ts'
import { hashText } from '../../src/balance/hash-text.ts'
import { testHost } from './ports.ts'
import { closeOnce } from './udp-backend.ts'
import { until } from './until.ts'

export interface UdpClient {
  readonly port: number
  /** What came, in order. */
  readonly received: Buffer[]
  /** The errnos it was told: ECONNREFUSED for each ICMP that says nobody listens. */
  readonly errors: string[]
  readonly send: (message: Buffer | string) => void
  /** Sends and waits for the next datagram, or errno, that comes. */
  readonly ask: (message: Buffer | string) => Promise<string>
  readonly close: () => Promise<void>
}

/** 14 addresses of clients, which are all of those that an endpoint can tell apart (doubts.ts). */
export const clientAddresses: readonly string[] = [
  ...new Map(
    Array.from({ length: 250 }, (_, i) => {
      const address = `127.9.0.${i + 1}`
      return [afterUnserved(noDoubts, hashText(address), 0).clients, address] as const
    }),
  ).values(),
]

/**
 * A client on a port of its own, closed when the test ends. Its socket is connected, so
 * that the kernel hands it nothing but what comes from where it writes to.
 */
export const udpClient = async (
  t: Test,
  port: number,
  host = testHost,
  from = host,
  fromPort = 0,
): Promise<UdpClient> => {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const received: Buffer[] = []
  const errors: string[] = []
  const failed = (error: NodeJS.ErrnoException): void =>
    void errors.push(error.code ?? error.message)
  socket.on('message', message => void received.push(message))
  socket.on('error', failed)
  socket.bind(fromPort, from)
  await once(socket, 'listening')
  socket.connect(port, host)
  await once(socket, 'connect')
  const close = closeOnce(socket)
  t.teardown(close)
  const send = (message: Buffer | string): void =>
    socket.send(message, error => {
      if (error !== null) failed(error)
    })
  const ask = async (message: Buffer | string): Promise<string> => {
    const [came, failures] = [received.length, errors.length]
    send(message)
    await until(
      'an answer or an error came',
      () => received.length > came || errors.length > failures,
    )
    return errors[failures] ?? String(received[came])
  }
  return { port: socket.address().port, received, errors, send, ask, close }
}
