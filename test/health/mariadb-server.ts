import { existsSync, readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { mysqlClient } from './mysql-client.ts'
import { runAsServer, serverDirectory, ServerProcess } from './server-process.ts'

const program = '/usr/sbin/mariadbd'
const share = '/usr/share/mysql'

export const noMariadb =
  !existsSync(`${share}/mysql_system_tables.sql`) && 'MariaDB is not installed'

/** Without InnoDB, and by the statements that mariadb-install-db runs: 0.3 s instead of 10. */
const makeData = (dir: string): readonly string[] => {
  const options = [
    '--no-defaults',
    '--skip-innodb',
    '--default-storage-engine=Aria',
    `--datadir=${dir}`,
    `--aria-log-dir-path=${dir}`,
    `--pid-file=${dir}/pid`,
    // Two that start at once would share names of temporary tables.
    `--tmpdir=${dir}`,
  ]
  const statements = ['mysql_system_tables.sql', 'mysql_system_tables_data.sql'].map(
    name =>
      readFileSync(`${share}/${name}`, 'utf8').replaceAll('@auth_root_socket', 'NULL'),
  )
  const input = `CREATE DATABASE mysql;\nUSE mysql;\n${statements.join('')}`
  runAsServer(program, [...options, '--bootstrap', '--log-warnings=0'], input)
  return options
}

/** `root` is for statements as root, by its Unix socket; `counted` for what it counts of bad clients. */
export const startMariadb = (
  t: Test,
  { host = '127.0.0.1', port }: { host?: string; port: number },
  ...more: readonly string[]
) => {
  const dir = serverDirectory(t)
  const socket = `${dir}/s`
  const server = new ServerProcess(t, program, [
    ...makeData(dir),
    `--port=${port}`,
    `--bind-address=${host}`,
    `--socket=${socket}`,
    '--performance-schema=OFF',
    '--log-warnings=4',
    ...more,
  ])
  const root = mysqlClient({ path: socket }, 'root')
  const counted = async (): Promise<readonly string[]> => {
    const names = ['Aborted_connects', 'Aborted_clients', 'Access_denied_errors']
    const found = names.map(name => root(`SHOW GLOBAL STATUS LIKE '${name}'`))
    return Promise.all(found)
  }
  return { server, root, counted }
}
