import type { Socket } from 'node:net'

/**
 * Closes with a reset and nothing else. `resetAndDestroy` may send a FIN first when it is
 * called while a write is finishing.
 */
export const reset = (socket: Socket): void => {
  ;(socket as Socket & { resetAndClosing?: boolean }).resetAndClosing = true
  socket.destroy()
}
