import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nginxMain } from '../targets/nginx.ts'
import { ProxyProcess } from '../targets/proxy.ts'
import { awaitServing, freePorts } from '../topology/probe.ts'
import type { Place } from '../topology/topology.ts'
import { backlog } from './listen.ts'

const readyWithinMs = 15_000

export interface HttpServer {
  readonly port: number
  readonly process: ProxyProcess
}

/** nginx as the `http` backend, with its files in `directory`, which is made. */
export const startHttpNginx = async (
  place: Place,
  directory: string,
): Promise<HttpServer> => {
  await mkdir(directory, { recursive: true })
  const near = place.listenAddress === '0.0.0.0' ? '127.0.0.1' : place.listenAddress
  const [port = 0] = await freePorts(place, near, 1)
  const file = join(directory, 'nginx.conf')
  await writeFile(file, httpConfig(directory, place.listenAddress, port))
  const nginx = new ProxyProcess(place, ['nginx', '-p', directory, '-c', file])
  const address = { name: 'http', protocol: 'TCP', address: near, port } as const
  const wait = { within: readyWithinMs, ended: nginx.ended }
  const why = await awaitServing(place, [address], wait)
  if (why === '') return { port, process: nginx }
  await nginx.stop()
  throw new Error(`nginx as a backend ${why}: ${nginx.lastWords()}`)
}

/**
 * The body of 16 KiB is put together because a string of nginx's configuration ends at
 * 4 KiB; a file of that size is slower (measured: up to a third). Kept connections are
 * kept, however many requests they carry.
 */
const httpConfig = (directory: string, listen: string, port: number): string => `\
${nginxMain(directory)}
http {
  access_log off;
  default_type text/plain;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
${temporaryPaths}
  server {
    listen ${listen}:${port} backlog=${backlog};
    set $part "${'u'.repeat(2048)}";
    location = /64 { return 200 "${'u'.repeat(64)}"; }
    location = /16384 { return 200 "${'$part'.repeat(8)}"; }
    location / { return 404; }
  }
}
`

/** Their defaults may be places where only root can write; relative to -p. */
const temporaryPaths = ['client_body', 'proxy', 'fastcgi', 'scgi', 'uwsgi']
  .map(name => `  ${name}_temp_path ${name};`)
  .join('\n')
