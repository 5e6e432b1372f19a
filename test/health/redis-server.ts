import type { Test } from 'tap'
import { isInstalled } from '../support/installed.ts'
import { serverDirectory, ServerProcess } from './server-process.ts'

export const noRedis = !isInstalled('redis-server') && 'redis-server is not installed'

/** `start` starts it once more, on the same data, after it has ended. */
export const startRedis = (
  t: Test,
  { host = '127.0.0.1', port }: { host?: string; port: number },
  ...options: readonly string[]
) => {
  const dir = serverDirectory(t)
  const place = ['--port', `${port}`, '--bind', host, '--dir', dir]
  const saving = ['--save', '', '--rdbcompression', 'no']
  const start = (...more: readonly string[]): ServerProcess =>
    new ServerProcess(t, 'redis-server', [...place, ...saving, ...options, ...more])
  return { start, server: start() }
}
