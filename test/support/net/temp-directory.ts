import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** An empty directory, removed with all that is in it when the test ends. */
export const tempDirectory = async (t: Test): Promise<string> => {
  const path = await mkdtemp(join(tmpdir(), 'usher-net-'))
  t.teardown(() => rm(path, { recursive: true }))
  return path
}
