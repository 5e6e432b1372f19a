import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packInto } from '../../scripts/tests/pack-for-tests.ts'

/** What runs in the machine, by their paths on the host, which it sees. */
export interface GuestPrograms {
  readonly agent: string
  /** `usher`. */
  readonly usher: string
  /** Has the kernel look at all programs of connect-time steering. */
  readonly loadVariants: string
}

const fromHere = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const programs = {
  agent: fromHere('guest/agent.ts'),
  'load-variants': fromHere('../kernel/connect-time/load-variants-main.ts'),
  'place-process': fromHere('../support/net/agent-process.ts'),
}

/**
 * Writes what runs in the machine as few large files: an emulated processor takes longer
 * over a file that it has to find and open than over what is in it.
 */
export const writeGuestPrograms = async (folder: string): Promise<GuestPrograms> => ({
  usher: await packInto(folder, { more: programs }),
  agent: join(folder, 'dist/agent.js'),
  loadVariants: join(folder, 'dist/load-variants.js'),
})
