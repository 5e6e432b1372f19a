// A process of its own: it mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, startUsher } from '../support/usher.ts'

/** Two hosts of this one; their Patroni answers at the same port. */
const hosts = ['127.102.3.1', '127.102.3.2']

/** What Patroni's REST API says: 200 at the primary, 503 at the others. */
const fakePatroni = async (
  t: Test,
  host: string,
  port: number,
  isPrimary: () => boolean,
): Promise<void> => {
  const server = createServer(({ url }, response) => {
    response.writeHead(url === '/primary' && isPrimary() ? 200 : 503).end()
  })
  server.listen(port, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
}

t.test('when the primary moves its sessions end, and no new one fails', async t => {
  const api = await freeTcpPort()
  let primary = 'a'
  const members = await Promise.all(
    ['a', 'b'].map(async (name, i) => {
      const host = hosts[i] ?? ''
      await fakePatroni(t, host, api, () => primary === name)
      return namedEcho(t, name, host)
    }),
  )
  const port = await freeTcpPort()
  const config = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const endpoints = members.map(({ endpoint }) => JSON.stringify(endpoint.key)).join(', ')
  await writeFile(
    config,
    `routes:
  - name: db
    listen: tcp://${testHost}:${port}
    endpoints: [${endpoints}]
    check: { type: http, port: ${api}, path: /primary, interval: 200ms, timeout: 1s }
    onDown: reset
    hold: 20s
`,
  )
  const usher = await startUsher(t, 'sidecar', '--config', config)
  t.equal(await firstWord(port), 'a', 'the first client waits for the first check')
  const session = dial(t, port)
  let sessionEnded = ''
  session.on('error', (error: NodeJS.ErrnoException) => (sessionEnded = error.code ?? ''))
  await once(session, 'data')

  primary = 'nobody'
  const movedAt = performance.now()
  await until('the session ends', () => sessionEnded === 'ECONNRESET')
  t.ok(performance.now() - movedAt < 3000, 'in time')
  const [first, second] = members.map(({ endpoint }) => endpoint.key)
  for (const endpoint of [second, first])
    t.match(await usher.logged('an endpoint is down', { endpoint }), {
      route: 'db',
      why: /503/,
    })
  t.match((await usher.status()).servicePorts[0]?.endpoints, [
    { check: { up: false, since: /^20/, why: 'HTTP status 503, 200 wanted' } },
    { check: { up: false, since: /^20/ } },
  ])
  const { body: metrics } = await get(usher.metrics, '/metrics')
  const labels = `service_port="route/db",protocol="TCP",endpoint="${first}"`
  t.match(metrics, `usher_endpoint_up{${labels}} 0\n`)
  const held = Array.from({ length: 10 }, () => firstWord(port))
  await new Promise(resolve => setTimeout(resolve, 500))
  primary = 'b'
  t.strictSame([...new Set(await Promise.all(held))], ['b'], 'all waited for the new one')
  t.match((await get(usher.metrics, '/metrics')).body, `endpoint="${second}"} 1\n`)
})
