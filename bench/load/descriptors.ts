import { readdirSync, readFileSync } from 'node:fs'

/** Kept for what else needs one. */
const reserve = 64
/** Where the limit can't be read: what most systems allow at least. */
const unknown = 1024

/** How many sockets this process can still open (`ulimit -n`). */
export const freeDescriptors = (): number => {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
    return Math.max(1, limit - readdirSync('/proc/self/fd').length - reserve)
  } catch {
    return unknown - reserve
  }
}
