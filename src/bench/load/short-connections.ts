import { connect, type Socket } from 'node:net'
import { ErrorCounts, type Load } from './load.ts'
import { requestBytes, requestOf } from './request.ts'

/**
 * Connections that carry one request and its response and end, `parallel` at a time.
 * The server closes first (see backends/one-shot.ts). A connection counts as done when
 * the response has come whole and the server's end after it.
 */
export const startShortConnections = (port: number, parallel: number): Load => {
  const errors = new ErrorCounts()
  const sockets = new Set<Socket>()
  let done = 0
  let stopped = false

  const open = (request: Buffer, buffer: Buffer): void => {
    let received = 0
    const onBytes = (length: number, bytes: Uint8Array): boolean => {
      received += length
      if (bytes[0] !== request[0]) errors.add('wrong response')
      return true
    }
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: { buffer, callback: onBytes },
    })
    sockets.add(socket)
    socket.write(request)
    socket.on('error', error => {
      if (!stopped) errors.addError(error)
    })
    socket.on('close', failed => {
      sockets.delete(socket)
      if (stopped) return
      if (received === requestBytes && !failed) done += 1
      else if (!failed) errors.add('closed early')
      // A refused connection fails at once: wait, so that a dead target can't spin.
      if (failed) setTimeout(() => stopped || open(request, buffer), 5)
      else open(request, buffer)
    })
  }

  for (let sender = 0; sender < parallel; sender += 1)
    open(requestOf(sender), Buffer.allocUnsafe(4096))
  return {
    done: () => done,
    errors: errors.counts,
    stop: () => {
      stopped = true
      for (const socket of sockets) socket.destroy()
    },
  }
}
