import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'

const period = 1 << 20
const once = randomBytes(period)
/** Twice, so that the piece that should stand at any place is one slice of it. */
const twice = Buffer.concat([once, once])

export interface BulkSender {
  /** Bytes that the socket has taken; its buffers may still hold the last of them. */
  readonly taken: () => number
}

/** Sends `total` bytes as fast as the socket takes them, then ends it. */
export const sendBulk = (socket: Socket, total: number): BulkSender => {
  let taken = 0
  const pump = (): void => {
    while (taken < total) {
      const piece = once.subarray(0, Math.min(period, total - taken))
      taken += piece.length
      if (!socket.write(piece)) return void socket.once('drain', pump)
    }
    socket.end()
  }
  pump()
  return { taken: () => taken }
}

export interface BulkReader {
  readonly bytes: () => number
  /** Place of the first byte that is not what `sendBulk` sends there; -1 when all are. */
  readonly firstWrong: () => number
  readonly ended: () => boolean
}

/** Compares what comes with what `sendBulk` sends, holding none of it. */
export const readBulk = (socket: Socket): BulkReader => {
  let bytes = 0
  let firstWrong = -1
  let ended = false
  socket.on('data', (piece: Buffer) => {
    if (firstWrong < 0 && !isDue(piece, bytes)) firstWrong = bytes
    bytes += piece.length
  })
  socket.on('end', () => (ended = true))
  return { bytes: () => bytes, firstWrong: () => firstWrong, ended: () => ended }
}

const isDue = (piece: Buffer, place: number): boolean => {
  for (let at = 0; at < piece.length; at += period) {
    const part = piece.subarray(at, at + period)
    const start = (place + at) % period
    if (part.compare(twice, start, start + part.length) !== 0) return false
  }
  return true
}
