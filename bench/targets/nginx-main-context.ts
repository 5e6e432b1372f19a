import { join } from 'node:path'
import { openFileLimit } from '../../src/relay/fd-limit.ts'

/** More would only be memory. */
const mostConnections = 65_536
/** For files, the log and the channel to the master. */
const reserved = 64

/**
 * The head of a configuration file of nginx's, for one worker with everything it writes
 * in `directory`. As root the workers stay root: the usual account does not exist in a
 * user namespace, and changing to it is what workers then die of.
 */
export const nginxMain = (directory: string): string =>
  [
    'daemon off;',
    'worker_processes 1;',
    ...(process.geteuid?.() === 0 && process.platform === 'linux' ? ['user root;'] : []),
    `pid ${join(directory, 'nginx.pid')};`,
    `lock_file ${join(directory, 'nginx.lock')};`,
    // Each endpoint that refuses is an `error`: that would be the log that is measured.
    'error_log stderr crit;',
  ].join('\n')

/** As many connections as the limit of open files allows; listening sockets count. */
export const nginxEvents = (): string => {
  const connections = Math.min(openFileLimit() - reserved, mostConnections)
  return `events { worker_connections ${connections}; multi_accept on; }`
}
