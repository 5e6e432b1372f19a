import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'

const period = 1 << 16
/** As fast as it goes it would leave nothing of the host to others: after so many pieces it waits a moment. */
const atOnce = 4
const pauseMs = 3
const resetMs = 100
const once = randomBytes(period)
/** Twice, so that the piece that should stand at any place is one slice of it. */
const twice = Buffer.concat([once, once])

/** One end of a connection that sends and compares all the while, until it is told to end. */
export interface Flooded {
  readonly socket: Socket
  readonly sent: () => number
  readonly received: () => number
  /** Place of the first byte that is not the one that is due; -1 when all are. */
  readonly firstWrong: () => number
  /** 'open'; 'ended' by a FIN of the other side; or the errno of what cut it. */
  readonly state: () => string
  /** Sends no more, and a FIN after what it has sent. */
  readonly stop: () => void
}

/** Each end does this: what one sends the other compares. */
export const flood = (socket: Socket): Flooded => {
  let [sent, received, firstWrong, state] = [0, 0, -1, 'open']
  const now = { isStopped: false }
  const write = (): boolean => {
    const at = sent % period
    const piece = twice.subarray(at, at + period)
    sent += piece.length
    return socket.write(piece)
  }
  const pump = (): void => {
    for (let i = 0; i < atOnce; i += 1) {
      if (now.isStopped || socket.destroyed) return
      if (!write()) return
    }
    setTimeout(pump, pauseMs)
  }
  socket.on('drain', () => setTimeout(pump, pauseMs))
  socket.on('data', (piece: Buffer) => {
    for (let at = 0; at < piece.length && firstWrong < 0; at += period) {
      const part = piece.subarray(at, at + period)
      const start = (received + at) % period
      if (part.compare(twice, start, start + part.length) !== 0)
        firstWrong = received + at
    }
    received += piece.length
  })
  socket.on('end', () => {
    // libuv says so of what was reset, too, where there was something to read before that (POLLHUP in
    // uv__stream_io): a write finds out.
    if (!now.isStopped && !socket.destroyed) write()
    setTimeout(() => {
      if (state === 'open') state = 'ended'
    }, resetMs)
  })
  socket.on(
    'error',
    (error: NodeJS.ErrnoException) => (state = error.code ?? error.message),
  )
  pump()
  return {
    socket,
    sent: () => sent,
    received: () => received,
    firstWrong: () => firstWrong,
    state: () => state,
    stop: () => {
      now.isStopped = true
      socket.end()
    },
  }
}
