import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { runUsherBy, startUsherBy, type Usher } from '../support/usher.ts'

const wineNode = fileURLToPath(new URL('../../scripts/tests/wine-node', import.meta.url))

/** What is to run a command line of this Node, by the one for Windows: see run-in-wine.ts. */
const before = [
  'env',
  `USHER_WINE=${process.env['USHER_WINE'] ?? ''}`,
  `TMPDIR=${tmpdir()}`,
  'sh',
  '-c',
  'shift; exec "$0" "$@"',
  wineNode,
]

/** Starts a command that serves, on Windows' Node, and waits until it does. */
export const startInWine = async (t: Test, ...args: string[]): Promise<Usher> => {
  const usher = await startUsherBy(t, before, ...args)
  // A process that is killed takes nothing of wine along.
  t.teardown(async () => {
    usher.send('SIGTERM')
    await usher.exit
  })
  return usher
}

/** Runs a command there to its end. */
export const runInWine = (...args: string[]): ReturnType<typeof runUsherBy> =>
  runUsherBy(before, ...args)

/** The path of a file as it is called there. */
export const windowsPath = (path: string): string => `Z:${path.replaceAll('/', '\\')}`
