import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { testHost } from './ports.ts'
import { endpoint } from './relay-fixture.ts'

export type Reply = (message: Buffer | string) => void

export interface UdpBackend {
  readonly endpoint: RelayEndpoint
  /** What came, in order. */
  readonly received: Buffer[]
  /** From then on nobody listens at its port. */
  readonly close: () => Promise<void>
}

/** A UDP server that hands each datagram to `serve`; closed when the test ends. */
export const udpBackend = async (
  t: Test,
  serve: (message: Buffer, reply: Reply, from: RemoteInfo) => void,
  host = testHost,
  port = 0,
): Promise<UdpBackend> => {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const received: Buffer[] = []
  socket.on('message', (message, from) => {
    received.push(message)
    const reply: Reply = answer => socket.send(answer, from.port, from.address)
    serve(message, reply, from)
  })
  socket.bind(port, host)
  await once(socket, 'listening')
  const close = closeOnce(socket)
  t.teardown(close)
  return { endpoint: endpoint(host, socket.address().port), received, close }
}

/** Sends back what it gets. */
export const echoUdp = (t: Test, host?: string, port?: number): Promise<UdpBackend> =>
  udpBackend(t, (message, reply) => reply(message), host, port)

/** Answers everything with `name`, except a datagram that says `silence`. */
export const namedUdp = (t: Test, name: string, port?: number): Promise<UdpBackend> =>
  udpBackend(
    t,
    (message, reply) => {
      if (message.toString() !== 'silence') reply(name)
    },
    testHost,
    port,
  )

/** Listens and never answers. */
export const silentUdp = (t: Test): Promise<UdpBackend> => udpBackend(t, () => {})

export const closeOnce = (socket: Socket): (() => Promise<void>) => {
  let closed: Promise<unknown> | undefined
  return async () => {
    if (closed === undefined) {
      closed = once(socket, 'close')
      socket.close()
    }
    await closed
  }
}
