import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { processTree } from '../../bench/process/usage.ts'
import { manifestFile, service, slice } from './manifests.ts'
import { testHost } from './ports.ts'
import { ask, namedBackend } from './tcp-backend.ts'
import { startUsherBy, type Usher } from './usher.ts'

/** The data planes among a process's descendants. */
export const dataPlanes = (pid: number): readonly number[] =>
  processTree(pid).filter(one =>
    commandOf(one).some(arg => arg.endsWith('/data-plane.js')),
  )

export const commandOf = (pid: number): readonly string[] => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return [] // It has ended since.
  }
}

/** Usher with one Service, which a client has been served by. */
export const serving = async (
  t: Test,
  port: number,
  flags: readonly string[] = [],
  before: readonly string[] = [],
): Promise<Usher> => {
  const { endpoint } = await namedBackend(t, 'a')
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [endpoint]),
  )
  const usher = await startUsherBy(t, before, 'run', '--manifests', file.path, ...flags)
  t.equal((await ask(port)).text, 'a')
  return usher
}
