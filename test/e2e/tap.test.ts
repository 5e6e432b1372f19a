// A process of its own: it mostly waits.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { socketPath } from '../support/control-socket.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { publishedSchema } from '../support/output-schema.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedBackend, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, spawnUsher, startUsher } from '../support/usher.ts'

t.jobs = 2

/** A command that goes on until it is told to end. */
const started = (t: Test, ...args: string[]) => {
  const child = spawnUsher(args)
  const printed = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', text => void (printed.out += String(text)))
  child.stderr.setEncoding('utf8').on('data', text => void (printed.err += String(text)))
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>
  t.teardown(() => child.kill('SIGKILL'))
  return { child, printed, exit }
}

const setUp = async (t: Test) => {
  const [port, bad] = [await freeTcpPort(), await freeTcpPort()]
  const dead = await freeTcpPort()
  const { endpoint } = await namedBackend(t, 'a')
  const web = service('web', testHost, [{ name: 'http', port }])
  const none = service('bad', testHost, [{ name: 'p', port: bad }])
  const refuses = { ...endpoint, key: `${testHost}:${dead}`, port: dead }
  const file = await manifestFile(
    t,
    web,
    ...slice('web', [endpoint], { name: 'http', protocol: 'TCP' }),
    none,
    ...slice('bad', [refuses], { name: 'p', protocol: 'TCP' }),
  )
  const flags = [`--manifests=${file.path}`, '--dial-ladder=100ms']
  const usher = await startUsher(t, 'run', ...flags)
  return { usher, port, bad, endpoint, refuses, address: `--address=${usher.metrics}` }
}

/** A client that is told nothing. */
const comes = async (port: number): Promise<void> => {
  const socket = connect(port, testHost)
  socket.on('error', () => {}).resume()
  await once(socket, 'close').catch(() => {})
}

t.test('connections of Services as they end, until Ctrl-C', async t => {
  const { usher, port, bad, endpoint, refuses, address } = await setUp(t)
  const text = started(t, 'tap', 'default/web', 'default/bad', address)
  const failed = started(t, 'tap', 'default/bad:p', '--failed', '-o', 'json', address)
  const other = started(t, 'tap', 'default/web', '--client=10.0.0.0/8', address)
  const few = started(t, 'tap', 'default/web', '--max-rate=1', '-o', 'json', address)
  const all = [text, failed, other, few]
  await until('the tables have begun', () =>
    [text, other].every(({ printed }) => printed.out.startsWith('TIME ')),
  )
  // What prints no head has asked as well.
  await until('all look', async () => {
    await comes(bad)
    await firstWord(port)
    return [text, failed, few].every(({ printed }) => printed.out.split('\n').length > 2)
  })
  for (let i = 0; i < 20; i += 1) await firstWord(port)
  await until('most are left out', () => /"kind":"LeftOut"/.test(few.printed.out))
  for (const { child } of all) child.kill('SIGINT')
  for (const { exit } of all) t.strictSame(await exit, [0, null])
  const [head = '', ...lines] = text.printed.out.trimEnd().split('\n')
  t.match(head, /^TIME +SERVICE +CLIENT +ENDPOINT +LASTED +TO-BACKEND +TO-CLIENT +END$/)
  const time = String.raw`\d\d:\d\d:\d\d\.\d{3}Z`
  const good = `^${time} +default/web:http +127\\.0\\.0\\.1:\\d+ +${endpoint.key} +\\S+ +0 B +1 B +finished$`
  const wrong = `^${time} +default/bad:p +127\\.0\\.0\\.1:\\d+ +- +\\S+ +0 B +0 B +no endpoint accepted \\(SC: ECONNREFUSED from ${refuses.key}\\), after \\d+ refused$`
  for (const line of lines) t.match(line, new RegExp(`${good}|${wrong}`))
  t.ok(lines.some(line => new RegExp(wrong).test(line)))
  for (const { printed } of all) t.equal(printed.err, '')
  t.equal(other.printed.out.split('\n').length, 2, 'no such client')
  const objects = (printed: string) =>
    printed
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as Record<string, unknown>)
  for (const one of objects(failed.printed.out))
    t.match(one, {
      apiVersion: 'usher-proxy.io/v1alpha1',
      kind: 'EndedConnection',
      route: 'default/bad:p',
      client: /^127\.0\.0\.1:\d+$/,
      endpoint: '',
      cause: 'SC',
      attempts: [{ endpoint: refuses.key, result: 'refused' }],
      endedAt: /^20\d\d-.*Z$/,
    })
  const isDocument = publishedSchema('output')
  for (const one of [failed, few].flatMap(({ printed }) => objects(printed.out)))
    t.ok(isDocument(one), JSON.stringify([one, isDocument.errors]))
  const left = objects(few.printed.out).find(({ kind }) => kind === 'LeftOut')
  t.match(left, { leftOut: Number })

  const kept = await get(usher.metrics, '/ended?routes=default/web&failed&after=x')
  t.match(JSON.parse(kept.body), { connections: [], leftOut: 0, gap: true })
})

t.test(
  'it begins with those that are open, ends as its reader does, and waits',
  async t => {
    const port = await freeTcpPort()
    const { endpoint } = await namedEcho(t, 'a')
    const route = `--route=tcp://${testHost}:${port}=${endpoint.key}`
    const at = `--control-socket=${await socketPath(t)}`
    const first = await startUsher(t, 'sidecar', route, at)
    const socket = dial(t, port)
    await once(socket, 'data')
    const { servicePorts } = await first.status()
    const name = (servicePorts[0]?.servicePort ?? '').replace('route/', '')
    const args = ['tap', name, '--open', '-o', 'json', at]
    const { child, printed, exit } = started(t, ...args)
    await until('what is open is printed', () => printed.out !== '')
    t.match(JSON.parse(printed.out), {
      kind: 'OpenConnection',
      name: /^\d/,
      client: `127.0.0.1:${socket.localPort}`,
      endpoint: endpoint.key,
      state: 'open',
    })
    socket.end()
    await until('its end is printed', () => /"EndedConnection"/.test(printed.out))
    first.send('SIGKILL')
    await first.exit
    await until('it says that it tries again', () => /; retrying/.test(printed.err))
    await startUsher(t, 'sidecar', route, at)
    await until('it goes on', () => /Usher answers again/.test(printed.err))
    await until('what is not known is said', () => /"kind":"Gap"/.test(printed.out))
    child.stdout.destroy()
    await until('somebody comes', async () => {
      const again = dial(t, port)
      await once(again, 'data')
      again.destroy()
      return child.exitCode !== null
    })
    t.strictSame(await exit, [0, null])
    t.match(await runUsher('tap', name, '--address=127.0.0.1:1'), { code: 3, out: '' })
    t.match(await runUsher('tap', 'nobody', at), {
      code: 1,
      out: '',
      err: /^usher tap: there is no route "nobody"/,
    })
    t.match(await runUsher('tap'), { code: 2 })
    t.match(await runUsher('tap', name, '--client=x'), {
      code: 2,
      err: /"x" is neither an IP address nor a block of them/,
    })
  },
)

t.test('Ctrl-C ends it at once, also while an Usher does not answer', async t => {
  let asked = 0
  const none = { connections: [], leftOut: 0, gap: false, notes: [], next: 'n' }
  const hangs = createServer((_request, response) => {
    asked += 1
    if (asked === 1) response.end(JSON.stringify(none))
  })
  hangs.listen(0, testHost)
  await once(hangs, 'listening')
  t.teardown(() => {
    hangs.close()
    hangs.closeAllConnections()
  })
  const { port } = hangs.address() as AddressInfo
  const { child, printed, exit } = started(
    t,
    'tap',
    'web',
    `--address=${testHost}:${port}`,
  )
  await until('it is asked again', () => asked === 2)
  const since = performance.now()
  child.kill('SIGINT')
  t.strictSame(await exit, [0, null])
  const took = performance.now() - since
  t.ok(took < 5000, `${took} ms`)
  t.equal(printed.err, '')
})
