import type { Socket } from 'node:net'
import { reset } from './reset.ts'
import type { Undelivered } from './undelivered.ts'

// One direction of a connection: what is written to a socket, from the one opposite.

/** Back-pressure: nothing more is read until what is written has gone. */
export const waitForDrain = (from: Socket, to: Socket): void => {
  from.pause()
  to.once('drain', () => from.resume())
}

/** A FIN behind data that is stuck would be in the way of a reset later on. */
export const endAfterData = (to: Socket): void => {
  if (to.writableLength === 0) to.end()
  else to.write(nothing, () => to.end())
}

/**
 * What was received before the reset is delivered first, within `ms`: the kernel drops what it has
 * not sent when a socket is closed with a reset.
 */
export const passReset = (to: Socket, undelivered: Undelivered, ms: number): void => {
  to.pause()
  if (to.bytesWritten === 0) reset(to)
  else undelivered.wait(to, ms, () => reset(to))
}

const nothing = Buffer.alloc(0)
