import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { serverDirectory, ServerProcess } from '../../health/server-process.ts'
import { isInstalled } from '../installed.ts'
import { until } from '../until.ts'
import { isListening } from './is-listening.ts'

export const noHaproxy = !isInstalled('haproxy') && 'haproxy is not installed'

/** One that serves by these sections, once it listens at all of `ports`; its log is on stdout. */
export const startHaproxy = async (
  t: Test,
  host: string,
  ports: readonly number[],
  sections: string,
): Promise<ServerProcess> => {
  const path = join(serverDirectory(t), 'haproxy.cfg')
  const config = `
global
  log stdout format raw local0
  maxconn 200
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
${sections}
`
  writeFileSync(path, config)
  const server = new ServerProcess(t, 'haproxy', ['-f', path, '-db'])
  await until(`HAProxy listens: ${server.log}`, () => isListening(host, ports))
  return server
}
