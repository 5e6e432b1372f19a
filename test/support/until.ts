import { setTimeout as sleep } from 'node:timers/promises'

/** Waits until `check` holds, at most `ms` milliseconds; then fails naming `what`. */
export const until = async (
  what: string,
  check: () => boolean | Promise<boolean>,
  ms = 5000,
): Promise<void> => {
  const end = performance.now() + ms
  while (!(await check())) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await sleep(5)
  }
}
