import { connect } from 'node:net'
import { reset } from './reset.ts'

/** Long enough for several reads, and unlike itself at each place. */
export const answer = Buffer.from(
  Array.from({ length: 60_000 }, (_, i) => (i * 31 + (i >> 8)) & 255),
)

export interface Answers {
  /** Ended in order, and too early. */
  short: number
  wrong: number
  reset: number
  whole: number
}

/** `visits` connections by 60 clients at a time, half of which reset in the middle of an answer. */
export const readAnswers = async (
  port: number,
  host: string,
  visits: number,
): Promise<Answers> => {
  const seen: Answers = { short: 0, wrong: 0, reset: 0, whole: 0 }
  let left = visits
  const visitor = async (resets: boolean): Promise<void> => {
    while (left-- > 0) await (resets ? leaveEarly(port, host) : readAll(port, host, seen))
  }
  await Promise.all(Array.from({ length: 60 }, (_, i) => visitor(i % 2 === 0)))
  return seen
}

/** Reads to the end, and counts what that was like. */
const readAll = (port: number, host: string, seen: Answers): Promise<void> =>
  new Promise(resolve => {
    let bytes = 0
    let isRight = true
    const socket = connect(port, host)
    socket.on('data', piece => {
      isRight &&= piece.equals(answer.subarray(bytes, bytes + piece.length))
      bytes += piece.length
    })
    socket.on('error', () => (seen.reset += 1))
    socket.on('end', () => {
      if (!isRight) seen.wrong += 1
      else if (bytes < answer.length) seen.short += 1
      else seen.whole += 1
    })
    socket.on('close', () => resolve())
  })

/** Resets in the middle of the answer. */
const leaveEarly = (port: number, host: string): Promise<void> =>
  new Promise(resolve => {
    const socket = connect(port, host)
    socket.once('data', () => reset(socket))
    socket.on('error', () => {})
    socket.on('close', () => resolve())
  })
