import type { Socket } from 'node:net'

/**
 * Closes a socket with a reset (SO_LINGER 0), at once. Node's `resetAndDestroy` waits for
 * everything written to be flushed, which a reader that has stalled never lets happen.
 *
 * While a FIN is on its way through libuv a reset is refused (uv_tcp_close_reset answers
 * EINVAL) and would leave the handle open: such a socket is closed plainly.
 */
export const reset = (socket: Socket): void => {
  const finishing = socket.writableEnded && !socket.writableFinished
  if (!finishing)
    (socket as Socket & { resetAndClosing?: boolean }).resetAndClosing = true
  socket.destroy()
}

/**
 * Whether a socket whose end was just read has really been reset. libuv reports an end
 * when data and a reset come in the same poll (its short cut for POLLHUP after a partial
 * read, uv__stream_io). A socket that was reset has no peer any more (ENOTCONN), one that
 * got a FIN still has. After our own FIN neither has, so that then it can't be told.
 */
export const wasReset = (socket: Socket): boolean => {
  if (socket.writableEnded) return false
  const { _handle: handle } = socket as Socket & {
    _handle?: { getpeername?: (out: object) => number } | null
  }
  return handle?.getpeername !== undefined && handle.getpeername({}) !== 0
}
