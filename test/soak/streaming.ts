import type { Socket } from 'node:net'
import { mostBytes, pattern } from './pattern.ts'

const slowPauseMs = 5

/** Writes `length` bytes of a pattern as fast as they are taken, then calls `done`. */
export const sendPattern = (
  socket: Socket,
  seed: number,
  length: number,
  done: () => void,
): void => {
  let sent = 0
  const more = (): void => {
    while (!socket.destroyed && sent < length) {
      const piece = pattern(seed, sent, Math.min(mostBytes, length - sent))
      sent += piece.length
      if (!socket.write(piece)) {
        socket.once('drain', more)
        return
      }
    }
    if (!socket.destroyed) done()
  }
  more()
}

/** Lets the other end wait a little after each piece that was read. */
export const readSlowly = (socket: Socket): void => {
  socket.on('data', () => {
    socket.pause()
    setTimeout(() => socket.resume(), slowPauseMs)
  })
}
