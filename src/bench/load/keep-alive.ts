import { connect, type Socket } from 'node:net'
import { ErrorCounts, type Load } from './load.ts'
import { requestBytes, requestOf } from './request.ts'

/** Milliseconds before a lost connection is made anew, so that a dead target can't spin. */
const reconnectMs = 20

/**
 * Requests and responses over `connections` connections that are kept open, one request
 * at a time on each. A connection that ends is counted as an error and replaced.
 */
export const startKeepAlive = (port: number, connections: number): Load => {
  const errors = new ErrorCounts()
  const sockets = new Set<Socket>()
  const timers = new Set<NodeJS.Timeout>()
  let done = 0
  let stopped = false

  const open = (sender: number): void => {
    const request = requestOf(sender)
    const mark = request[0]
    let missing = requestBytes
    const onBytes = (length: number, bytes: Uint8Array): boolean => {
      missing -= length
      if (bytes[0] !== mark || missing < 0) errors.add('wrong response')
      if (missing <= 0) {
        done += 1
        missing = requestBytes
        socket.write(request)
      }
      return true
    }
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: { buffer: Buffer.allocUnsafe(4096), callback: onBytes },
    })
    sockets.add(socket)
    socket.on('connect', () => socket.write(request))
    socket.on('error', error => {
      if (!stopped) errors.addError(error)
    })
    socket.on('close', failed => {
      sockets.delete(socket)
      if (stopped) return
      if (!failed) errors.add('closed early')
      const timer = setTimeout(() => {
        timers.delete(timer)
        open(sender)
      }, reconnectMs)
      timers.add(timer)
    })
  }

  for (let sender = 0; sender < connections; sender += 1) open(sender)
  return {
    done: () => done,
    errors: errors.counts,
    stop: () => {
      stopped = true
      for (const timer of timers) clearTimeout(timer)
      for (const socket of sockets) socket.destroy()
    },
  }
}
