import type { Socket } from 'node:net'

/**
 * Closes a socket with a reset (SO_LINGER 0), at once. Node's `resetAndDestroy` waits for
 * everything written to be flushed, which a reader that has stalled never lets happen.
 *
 * While a FIN is on its way through libuv a reset is refused (uv_tcp_close_reset answers
 * EINVAL) and would leave the handle open: such a socket is closed plainly.
 *
 * A unix socket can't be reset: who reads from it gets what was sent, and the end.
 */
export const reset = (socket: Socket): void => {
  const finishing = socket.writableEnded && !socket.writableFinished
  const { _handle: handle } = socket as Socket & { _handle?: { reset?: unknown } | null }
  if (!finishing && handle?.reset !== undefined)
    (socket as Socket & { resetAndClosing?: boolean }).resetAndClosing = true
  socket.destroy()
}

/**
 * Whether a socket whose end was just read has really been reset. libuv reports an end
 * when data and a reset come in the same poll (its short cut for POLLHUP after a partial
 * read, uv__stream_io). A socket that was reset has no peer any more (ENOTCONN), one that
 * got a FIN still has. After our own FIN neither has: then `confirmEnd` finds out.
 */
export const wasReset = (socket: Socket): boolean => {
  if (socket.writableEnded) return false
  const { _handle: handle } = socket as Socket & {
    _handle?: { getpeername?: (out: object) => number } | null
  }
  return handle?.getpeername !== undefined && handle.getpeername({}) !== 0
}

/**
 * Whether an end that was just read may be a reset that `wasReset` does not know of: after our own
 * FIN, where something has `moved` since, and of a unix socket, whose peer can't be asked for.
 */
export const mayBeReset = (socket: Socket, moved: boolean): boolean => {
  const { _handle: handle } = socket as Socket & {
    _handle?: { getpeername?: unknown } | null
  }
  return (socket.writableEnded && moved) || handle?.getpeername === undefined
}

/**
 * Reads once more from a socket whose end was just read: a
 * socket that was reset answers with its error, which then takes the socket's usual way;
 * one that has really ended answers with another end, and `ended` is called.
 */
export const confirmEnd = (socket: Socket, ended: () => void): void => {
  const inner = socket as Socket & {
    _handle?: { readStart?: () => number } | null
    _writableState?: { autoDestroy: boolean }
  }
  const { _handle: handle, _writableState: state } = inner
  if (!handle?.readStart || state === undefined) return ended()
  // Both ends are done, so that Node would close the socket now, before it can answer.
  state.autoDestroy = false
  handle.readStart()
  // One turn until the poll, one until what it brought has been handled.
  setImmediate(() =>
    setImmediate(() => {
      if (socket.destroyed) return
      ended()
      if (socket.writableFinished) socket.destroy()
      else socket.once('finish', () => socket.destroy())
    }),
  )
}
