import type { Socket } from 'node:net'
import { isLoopback } from '../../util/ip.ts'
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
  if (to.bytesWritten === 0 || isTakenIn(to)) reset(to)
  else undelivered.wait(to, ms, () => reset(to))
}

/** Within a host what fits into a new connection's window is at its reader as soon as it is sent. */
const isTakenIn = ({ remoteAddress, bytesWritten, writableLength }: Socket): boolean =>
  isLoopback(remoteAddress ?? '') && bytesWritten <= 16_384 && writableLength === 0

const nothing = Buffer.alloc(0)
