import { performance } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

/** How long a long piece of work may keep the event loop to itself, in milliseconds. */
const longestTurn = 5

/** A function to await now and then in long work: lets the event loop turn when it is time. */
export const pacer = (): (() => Promise<void>) => {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < longestTurn) return
    await setImmediate()
    since = performance.now()
  }
}
