import { once } from 'node:events'
import {
  type AddressInfo,
  connect,
  createServer,
  type Server,
  type Socket,
} from 'node:net'
import type { Test } from 'tap'
import { testHost } from './ports.ts'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { endpoint } from './relay-fixture.ts'

export interface TcpBackend {
  readonly endpoint: RelayEndpoint
  readonly server: Server
  readonly sockets: Set<Socket>
  accepted: number
  close(): Promise<void>
}

/** A real server that hands each connection to `serve`; closed when the test ends. */
export const tcpBackend = async (
  t: Test,
  serve: (socket: Socket) => void,
  host = testHost,
  port = 0,
): Promise<TcpBackend> => {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    backend.accepted += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    serve(socket)
  })
  server.listen(port, host)
  await once(server, 'listening')
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
  t.teardown(close)
  const address = server.address() as AddressInfo
  const backend: TcpBackend = {
    endpoint: endpoint(host, address.port),
    server,
    sockets,
    accepted: 0,
    close,
  }
  return backend
}

/** Answers every connection with `name` and closes it. */
export const namedBackend = (t: Test, name: string, host?: string): Promise<TcpBackend> =>
  tcpBackend(t, socket => void socket.end(name), host)

/** Sends back what it gets, and its end. */
export const echoBackend = (t: Test, host?: string): Promise<TcpBackend> =>
  tcpBackend(t, socket => void socket.pipe(socket), host)

/** Says `name`, then sends back what it gets, and its end. */
export const namedEcho = (
  t: Test,
  name: string,
  host?: string,
  port?: number,
): Promise<TcpBackend> =>
  tcpBackend(
    t,
    socket => {
      socket.write(name)
      socket.pipe(socket)
    },
    host,
    port,
  )

/** A client socket; destroyed when the test ends. */
export const dial = (t: Test, port: number, host = testHost, from?: string): Socket => {
  const socket = connect({
    port,
    host,
    allowHalfOpen: true,
    noDelay: true,
    ...(from === undefined ? {} : { localAddress: from }),
  })
  t.teardown(() => socket.destroy())
  return socket
}

/** What a connection got until it ended, and how it ended: `end` or an errno. */
export interface Ending {
  readonly text: string
  readonly how: string
}

/** Connects, sends nothing and reads to the end. */
export const ask = (port: number, host = testHost, from?: string): Promise<Ending> =>
  new Promise(resolve => {
    let text = ''
    const socket = connect({
      port,
      host,
      ...(from === undefined ? {} : { localAddress: from }),
    })
    socket.on('data', chunk => (text += chunk.toString()))
    socket.on('end', () => resolve({ text, how: 'end' }))
    socket.on('error', (error: NodeJS.ErrnoException) =>
      resolve({ text, how: error.code ?? error.message }),
    )
  })

/** Connects and leaves at the first word: that word, or the errno of what went wrong. */
export const firstWord = (port: number, host = testHost): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(port, host)
    socket.on('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code ?? error.message),
    )
    socket.on('data', data => {
      resolve(data.toString())
      socket.end()
    })
    socket.on('close', () => resolve('closed'))
  })
