import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openFileLimit } from '../../src/relay/fd-limit.ts'
import { nginx, outputOf, programProblem } from './program.ts'
import { hostPort, type Placed, startByFile } from './proxy.ts'
import type { Target } from './target.ts'

/** nginx with its stream module, TCP and UDP. */
export const nginxTarget = (command = nginx.command): Target => ({
  name: 'nginx',
  title: 'nginx stream, one worker',
  kind: 'peer',
  unsupportedReason: async () => {
    const why = await programProblem({ ...nginx, command })
    if (why !== '') return why
    return (await streamModule(command)) === undefined
      ? `${command} has no stream module (Debian package libnginx-mod-stream)`
      : ''
  },
  start: async order => {
    const module = (await streamModule(command)) ?? ''
    return startByFile(order, {
      name: 'nginx',
      file: 'nginx.conf',
      content: (services, directory) =>
        nginxConfig(services, directory, {
          module,
          isToBeReplaced: order.isToBeReplaced === true,
        }),
      argv: (file, directory) => [command, '-p', directory, '-c', file],
      // A user namespace has no groups to change to; the worker goes on without.
      ordinary: /initgroups\(.*failed/,
      changes: 'SIGHUP',
      replaced: 'SIGHUP',
    })
  },
})

const usualPlaces = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules']

/**
 * What nginx has to load for `stream`: the path of a module, '' when it is built in,
 * undefined when it has none.
 */
const streamModule = async (command: string): Promise<string | undefined> => {
  const built = await outputOf(command, '-V')
  if (/--with-stream(?:\s|$)/m.test(built)) return ''
  const own = /--modules-path=(\S+)/.exec(built)?.[1]
  return [...(own === undefined ? [] : [own]), ...usualPlaces]
    .map(place => join(place, 'ngx_stream_module.so'))
    .find(file => existsSync(file))
}

/**
 * nginx as one would set it up to be fast with one worker, as all others have one thread.
 * `proxy_connect_timeout` is the first step of Usher's dial ladder, so that both leave a
 * silent endpoint after the same time; UDP clients are forgotten after Usher's 30 s. That
 * an endpoint that failed is left alone for 10 s (fail_timeout) is nginx's default. With
 * one worker reuseport would share nothing out. It reads as much at once as Node does,
 * 64 KiB: with its default of 16 KiB a gigabyte takes a third more CPU time, and the memory
 * of idle connections is the same (measured).
 */
const nginxConfig = (
  services: readonly Placed[],
  directory: string,
  {
    module,
    isToBeReplaced,
  }: { readonly module: string; readonly isToBeReplaced: boolean },
): string => `\
${module === '' ? '' : `load_module ${module};\n`}${nginxMain(directory)}
${isToBeReplaced ? 'worker_shutdown_timeout 1s;\n' : ''}\
stream {
  proxy_connect_timeout 250ms;
  proxy_next_upstream on;
  proxy_timeout 1h;
  tcp_nodelay on;
  proxy_buffer_size 64k;
${services.map(section).join('')}}
`

const section = ({ name, protocol, listen, endpoints }: Placed): string => {
  const kind = protocol === 'TCP' ? 'backlog=4096' : 'udp'
  const timeout = protocol === 'TCP' ? '' : ' proxy_timeout 30s;'
  // An upstream without a server is an error; one that is down is what it would be.
  const servers = endpoints.length === 0 ? ['127.0.0.1:1 down'] : endpoints.map(hostPort)
  return `\
  upstream ${name} { ${servers.map(server => `server ${server};`).join(' ')} }
  server { listen ${hostPort(listen)} ${kind};${timeout} proxy_pass ${name}; }
`
}

/** More would only be memory. */
const mostConnections = 65_536
/** For files, the log and the channel to the master. */
const reserved = 64

/**
 * The head of a configuration file of nginx's, for one worker with everything it writes
 * in `directory`, and as many connections as the limit of open files allows; listening sockets
 * count. As root the workers stay root: the usual account does not exist in a
 * user namespace, and changing to it is what workers then die of.
 */
export const nginxMain = (directory: string): string => {
  const connections = Math.min(openFileLimit() - reserved, mostConnections)
  return [
    'daemon off;',
    'worker_processes 1;',
    ...(process.geteuid?.() === 0 && process.platform === 'linux' ? ['user root;'] : []),
    `pid ${join(directory, 'nginx.pid')};`,
    `lock_file ${join(directory, 'nginx.lock')};`,
    // Each endpoint that refuses is an `error`: that would be the log that is measured.
    'error_log stderr crit;',
    `events { worker_connections ${connections}; multi_accept on; }`,
  ].join('\n')
}
