import {
  request as httpRequest,
  type IncomingHttpHeaders,
  type RequestOptions,
} from 'node:http'
import type { Test } from 'tap'
import type { Routes } from '../../src/observe/admin-routes.ts'
import { startAdminServer } from '../../src/proxy/servers.ts'
import { createLog } from '../../src/observe/log.ts'
import type { Bind } from '../../src/relay/relay.ts'
import { splitHostPort } from '../../src/util/ip.ts'
import { FakeClock } from '../support/fake-clock.ts'

/** A server with a fake clock and its log records. */
export const start = async (t: Test, routes: Routes, bind: Bind) => {
  const clock = new FakeClock()
  const records: Record<string, unknown>[] = []
  const log = await createLog({
    level: 'debug',
    format: 'json',
    stream: { write: line => void records.push(JSON.parse(line)) },
  })
  const server = await startAdminServer({
    name: 'metrics',
    flag: '--metrics-bind-address',
    bind,
    routes,
    log,
    clock,
  })
  t.teardown(() => server.close())
  return { server, clock, records }
}

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** One request on a connection of its own. */
export const ask = (address: string, path: string, options: RequestOptions = {}) =>
  new Promise<Reply>((resolve, reject) => {
    const { host, port } = splitHostPort(address) ?? { host: '', port: 0 }
    const request = httpRequest({ host, port, path, agent: false, ...options })
    request.on('error', reject)
    request.on('response', response => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => (body += text))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      )
    })
    request.end()
  })
