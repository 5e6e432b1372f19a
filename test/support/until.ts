import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits until `check` holds, at most `ms` milliseconds; then fails naming `what`. The usual
 * limit is far beyond what a host with too much to do takes: it is for what never comes.
 */
export const until = async (
  what: string,
  check: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> => {
  const end = performance.now() + ms
  while (!(await check())) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await sleep(5)
  }
}
