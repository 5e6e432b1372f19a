import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { serverDirectory, ServerProcess } from '../../health/server-process.ts'
import { isInstalled } from '../installed.ts'
import { until } from '../until.ts'
import { isListening } from './is-listening.ts'

export const noNginx = !isInstalled('nginx') && 'nginx is not installed'

const streamModule = '/usr/lib/nginx/modules/ngx_stream_module.so'

/** One that serves by these blocks, once it listens at all of `ports`. */
export const startNginx = async (
  t: Test,
  host: string,
  ports: readonly number[],
  blocks: string,
): Promise<ServerProcess> => {
  const dir = serverDirectory(t)
  const path = join(dir, 'nginx.conf')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map(name => `${name}_temp_path ${dir}/${name};`)
    .join(' ')
  writeFileSync(
    path,
    `${existsSync(streamModule) ? `load_module ${streamModule};` : ''}
daemon off;
worker_processes 1;
pid ${dir}/nginx.pid;
lock_file ${dir}/nginx.lock;
error_log stderr info;
events { worker_connections 200; }
${blocks.replaceAll('http {', `http { access_log off; ${temporary}`)}
`,
  )
  const server = new ServerProcess(t, 'nginx', ['-c', path, '-p', dir, '-e', 'stderr'])
  // Killed, it would leave its worker.
  t.teardown(() => server.kill('SIGTERM'))
  await until(`nginx listens: ${server.log}`, () => isListening(host, ports))
  return server
}
