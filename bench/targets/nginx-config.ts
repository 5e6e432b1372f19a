import type { BenchService, Endpoint } from '../services.ts'
import { nginxEvents, nginxMain } from './nginx-main-context.ts'

/** A service, and where it is to be served. */
export type NginxService = BenchService & { readonly listen: Endpoint }

/**
 * nginx as one would set it up to be fast with one worker, as all others have one thread.
 * `proxy_connect_timeout` is the first step of Usher's dial ladder, so that both leave a
 * silent endpoint after the same time; UDP clients are forgotten after Usher's 30 s. That
 * an endpoint that failed is left alone for 10 s (fail_timeout) is nginx's default. With
 * one worker reuseport would share nothing out. It reads as much at once as Node does,
 * 64 KiB: with its default of 16 KiB a gigabyte takes a third more CPU time, and the memory
 * of idle connections is the same (measured).
 */
export const nginxConfig = (
  services: readonly NginxService[],
  directory: string,
  streamModule: string,
): string => `\
${streamModule === '' ? '' : `load_module ${streamModule};\n`}${nginxMain(directory)}
${nginxEvents()}
stream {
  proxy_connect_timeout 250ms;
  proxy_next_upstream on;
  proxy_timeout 1h;
  tcp_nodelay on;
  proxy_buffer_size 64k;
${services.map(section).join('')}}
`

const section = ({ name, protocol, listen, endpoints }: NginxService): string => {
  const kind = protocol === 'TCP' ? 'backlog=4096' : 'udp'
  const timeout = protocol === 'TCP' ? '' : ' proxy_timeout 30s;'
  // An upstream without a server is an error; one that is down is what it would be.
  const servers = endpoints.length === 0 ? ['127.0.0.1:1 down'] : endpoints.map(place)
  return `\
  upstream ${name} { ${servers.map(server => `server ${server};`).join(' ')} }
  server { listen ${place(listen)} ${kind};${timeout} proxy_pass ${name}; }
`
}

const place = ({ address, port }: Endpoint): string => `${address}:${port}`
