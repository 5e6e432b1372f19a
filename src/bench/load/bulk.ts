import { connect, type OnReadOpts } from 'node:net'
import { ackedBytes } from '../backends/sink.ts'
import { ErrorCounts, type Load } from './load.ts'

const blockBytes = 256 * 1024

/** One stream from the source backend, read into one buffer that is used again. */
export const startDownload = (port: number): Load => {
  let done = 0
  const { load } = openStream(port, () => done, {
    buffer: Buffer.allocUnsafe(blockBytes),
    callback: length => {
      done += length
      return true
    },
  })
  return load
}

/** One stream to the sink backend; what counts is what the sink says has arrived. */
export const startUpload = (port: number): Load => {
  let done = 0
  const { socket, load } = openStream(port, () => done, {
    buffer: Buffer.allocUnsafe(4096),
    callback: length => {
      done += length * ackedBytes
      return true
    },
  })
  const block = Buffer.alloc(blockBytes, 'usher')
  const fill = (): void => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('connect', fill)
  socket.on('drain', fill)
  return load
}

const openStream = (port: number, done: () => number, onread: OnReadOpts) => {
  const errors = new ErrorCounts()
  let stopped = false
  const socket = connect({ host: '127.0.0.1', port, noDelay: true, onread })
  socket.on('error', error => {
    if (!stopped) errors.addError(error)
  })
  socket.on('close', failed => {
    if (!stopped && !failed) errors.add('closed early')
  })
  const stop = (): void => {
    stopped = true
    socket.destroy()
  }
  const load: Load = { done, errors: errors.counts, stop }
  return { socket, load }
}
