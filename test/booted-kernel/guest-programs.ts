import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleUsher } from '../../scripts/tests/usher-bundle.ts'

/** What runs in the machine, by their paths on the host, which it sees. */
export interface GuestPrograms {
  readonly agent: string
  /** `usher`. */
  readonly usher: string
}

const fromHere = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const agents = {
  agent: fromHere('guest/agent.ts'),
  'place-process': fromHere('../support/net/agent-process.ts'),
}

/**
 * Writes what runs in the machine as few large files: an emulated processor takes longer
 * over a file that it has to find and open than over what is in it.
 */
export const writeGuestPrograms = async (folder: string): Promise<GuestPrograms> => ({
  usher: await bundleUsher(folder, { more: agents }),
  agent: join(folder, 'agent.js'),
})
