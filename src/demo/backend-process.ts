/**
 * A backend of the demo, a process of its own so that it can really be killed.
 * Arguments: what it speaks, its name, its address, its port (0 for any). It says to its
 * parent over IPC where it listens, or why it can't, and lives no longer than its parent.
 */
import { createSocket } from 'node:dgram'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server } from 'node:net'

/** What a backend reports to the demo. */
export type BackendMessage =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }

const [speaks, name = 'backend', address = '127.0.0.1', portText = '0'] =
  process.argv.slice(2)
const port = Number(portText)

/** Time for connections in hand to end once the process has been asked to. */
const graceMs = 300

const report = (message: BackendMessage, then = (): void => {}): void => {
  // With a callback, a parent that has just gone is no uncaught error.
  if (process.connected) process.send?.(message, undefined, {}, then)
  else then()
}

const fail = (error: NodeJS.ErrnoException): void =>
  report({ kind: 'failed', code: error.code ?? '', message: error.message }, () =>
    process.exit(1),
  )

/** Like a well-made pod: finish what was accepted, take nothing new, leave. */
const leaveOnTerm = (stopListening: (done: () => void) => void): void => {
  process.once('SIGTERM', () => {
    setTimeout(() => process.exit(0), graceMs)
    // What waits in the kernel's queue is accepted before the queue is closed.
    setImmediate(() => stopListening(() => process.exit(0)))
  })
}

const serve = (server: Server): void => {
  server.on('error', fail)
  server.listen({ host: address, port }, () => {
    const bound = server.address()
    report({
      kind: 'listening',
      port: typeof bound === 'object' && bound ? bound.port : port,
    })
  })
  leaveOnTerm(done => server.close(done))
}

const serveHttp = (): void =>
  serve(
    createHttpServer((_request, response) => {
      // One request a connection: Usher balances connections, so each request shows it.
      response.writeHead(200, { 'content-type': 'text/plain', connection: 'close' })
      response.end(`${name} says hello\n`)
    }),
  )

const serveTcpEcho = (): void =>
  serve(
    createServer({ allowHalfOpen: true }, socket => {
      socket.on('error', () => socket.destroy())
      socket.write(`${name} says `)
      socket.pipe(socket)
    }),
  )

const serveUdpEcho = (): void => {
  const socket = createSocket('udp4')
  socket.on('error', fail)
  socket.on('message', (data, from) =>
    socket.send([`${name} says `, data], from.port, from.address),
  )
  socket.bind({ address, port }, () =>
    report({ kind: 'listening', port: socket.address().port }),
  )
  leaveOnTerm(done => socket.close(done))
}

// On Windows Ctrl-C reaches every process of the console; the demo ends its backends itself,
// after the proxy. And when the demo is gone, however it went, so is this.
process.on('SIGINT', () => {})
process.on('disconnect', () => process.exit(0))
if (!process.connected) process.exit(0)

if (speaks === 'http') serveHttp()
else if (speaks === 'tcp-echo') serveTcpEcho()
else serveUdpEcho()
