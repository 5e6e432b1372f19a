import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { askCommand } from '../../src/cli/ask-usher.ts'

const asked = async (t: Test, body?: string) => {
  const server = createServer((_request, response) => {
    if (body !== undefined) response.writeHead(409).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { controlSocket: '', address: `127.0.0.1:${port}` }
}

t.test('a refusal is said, but not a million characters', async t => {
  const refusal = (message: string) => JSON.stringify({ error: { code: 'X', message } })
  const short = await asked(t, refusal('no such route'))
  await t.rejects(askCommand(short, 'connections', {}), {
    code: 'ORDER_REFUSED',
    message: 'no such route',
  })
  const long = await asked(t, refusal('x'.repeat(1_000_000)))
  await t.rejects(askCommand(long, 'connections', {}), {
    code: 'ORDER_REFUSED',
    message: /^x{2000}\.\.\.$/,
  })
})

t.test('who asks may stop', async t => {
  const stop = new AbortController()
  const where = await asked(t)
  const answer = askCommand(where, 'connections', {}, stop.signal)
  setTimeout(() => stop.abort(), 20)
  const since = performance.now()
  await t.rejects(answer, { code: 'NO_ANSWER' })
  t.ok(performance.now() - since < 5000)
})
