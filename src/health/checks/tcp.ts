import type { AddressPort } from '../../util/ip.ts'
import { connectTo } from '../../util/connect-to.ts'
import { type CheckLimits, type CheckOutcome, failed, passed } from '../check.ts'
import { givenUp, socketFailure, tooLate } from '../failure-words.ts'

/**
 * Up is what takes a connection. It is closed at once, without a look at what comes: reading
 * until the server closes, too, would cost half as much again. `greeting` is said before.
 */
export const checkTcp = (
  { address, port }: AddressPort,
  limits: CheckLimits,
  greeting?: Buffer,
): Promise<CheckOutcome> =>
  new Promise(resolve => {
    const { timeoutMs, signal } = limits
    if (signal.aborted) return resolve(givenUp)
    let outcome = failed('closed')
    const end = (found: CheckOutcome): void => {
      outcome = found
      socket.destroy()
    }
    const socket = connectTo(address, port)
    const timer = setTimeout(() => end(tooLate(false, limits)), timeoutMs)
    const giveUp = (): void => end(givenUp)
    signal.addEventListener('abort', giveUp)
    socket.once('connect', () => {
      if (greeting === undefined) end(passed)
      else socket.write(greeting, () => end(passed))
    })
    socket.once('error', error => end(socketFailure(error)))
    socket.once('close', () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
      resolve(outcome)
    })
  })
