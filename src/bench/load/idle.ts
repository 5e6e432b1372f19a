import { connect, type Socket } from 'node:net'
import { ErrorCounts } from './load.ts'
import { requestBytes, requestOf } from './request.ts'

/** Connections being opened at a time: below every listen backlog. */
const parallel = 64
const answerWithinMs = 5000

export interface IdleConnections {
  readonly opened: number
  readonly errors: Readonly<Record<string, number>>
  close(): Promise<void>
}

/**
 * Opens `count` connections, exchanges one request on each (so that a proxy has certainly
 * connected to its backend), and leaves them idle. Those that fail are counted.
 */
export const openIdle = async (port: number, count: number): Promise<IdleConnections> => {
  const errors = new ErrorCounts()
  const sockets: Socket[] = []
  let started = 0
  let closing = false
  const worker = async (): Promise<void> => {
    while (started < count) {
      started += 1
      try {
        const socket = await openOne(port)
        socket.on('error', error => errors.addError(error))
        socket.on('close', failed => closing || failed || errors.add('closed early'))
        sockets.push(socket)
      } catch (error) {
        errors.addError(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  return {
    opened: sockets.length,
    errors: errors.counts,
    close: async () => {
      closing = true
      await Promise.all(sockets.map(closeOne))
    },
  }
}

const openOne = (port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    let received = 0
    const fail = (error: Error): void => {
      socket.destroy()
      reject(error)
    }
    const onEnd = (): void => fail(new Error('closed early'))
    const onTimeout = (): void => fail(new Error('no answer'))
    socket.setTimeout(answerWithinMs, onTimeout).once('error', fail).once('end', onEnd)
    socket.on('data', chunk => {
      received += chunk.length
      if (received < requestBytes) return
      socket.setTimeout(0).off('error', fail).off('end', onEnd)
      resolve(socket)
    })
    socket.write(requestOf(0))
  })

const closeOne = (socket: Socket): Promise<void> =>
  new Promise(resolve => {
    if (socket.closed) return resolve()
    socket.once('close', () => resolve()).end()
  })
