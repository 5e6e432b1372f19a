import { writeFileSync } from 'node:fs'
import type { Test } from 'tap'
import { postgresBin } from '../../bench/sidecar/postgres-program.ts'
import { runAsServer, serverDirectory, ServerProcess } from './server-process.ts'

/** The directory of a server, and its data in there. */
export interface Cluster {
  readonly dir: string
  readonly data: string
}

export const makeCluster = (t: Test): Cluster => {
  const dir = serverDirectory(t)
  const data = `${dir}/data`
  const options = ['-A', 'trust', '-U', 'postgres', '--no-sync', '--locale', 'C']
  runAsServer(`${postgresBin()}/initdb`, ['-D', data, ...options])
  return { dir, data }
}

/** Of one that does not run: a standby, that follows a server as `primary` says (a conninfo). */
export const makeStandby = (
  t: Test,
  { data: from }: Cluster,
  primary: string,
): Cluster => {
  const dir = serverDirectory(t)
  const data = `${dir}/data`
  runAsServer('cp', ['-a', from, data])
  writeFileSync(`${data}/standby.signal`, '')
  writeFileSync(`${data}/postgresql.auto.conf`, `primary_conninfo = '${primary}'\n`)
  return { dir, data }
}

/** `access` is its pg_hba.conf. */
export const startPostgres = (
  t: Test,
  { dir, data }: Cluster,
  { host = '127.0.0.1', port, access }: { host?: string; port: number; access: string },
  ...settings: readonly string[]
): ServerProcess => {
  writeFileSync(`${data}/pg_hba.conf`, `${access}\n`)
  const all = ['fsync=off', 'log_min_messages=info', ...settings]
  const server = new ServerProcess(t, `${postgresBin()}/postgres`, [
    '-D',
    data,
    '-p',
    `${port}`,
    '-h',
    host,
    '-k',
    dir,
    ...all.flatMap(one => ['-c', one]),
  ])
  // Not by SIGKILL: what it has started would be left, and keep the next one from its data.
  t.teardown(() => server.kill('SIGINT'))
  return server
}
