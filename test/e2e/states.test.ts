// A process of its own: it mostly waits.
import t, { type Test } from 'tap'
import type { Events } from '../../src/page/wire.ts'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { socketPath } from '../support/control-socket.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { silentBackend } from '../support/silent-backend.ts'
import { ask, dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher } from '../support/usher.ts'

/** What each Service is, by its name, and how many of its endpoints are in use: the same in each view. */
const expected = {
  'all-up': ['ok', '2/2'],
  'one-down': ['degraded', '1/2'],
  'all-down': ['down', '0/2'],
  'all-down-hold': ['down', '0/2'],
  cooling: ['degraded', '2/2'],
  failing: ['failing', '1/1'],
  none: ['no endpoints', '0/0'],
  paused: ['paused', '1/1'],
  drained: ['draining', '1/2'],
} as const

type Name = keyof typeof expected

const names = Object.keys(expected) as Name[]
const words = Object.fromEntries(names.map(name => [name, expected[name][0]]))

type States = Readonly<Record<string, unknown>>

const named = (servicePort: string): string =>
  servicePort.replace(/^default\/(.*):p$/, '$1')

/** A running Usher with a Service in each of these states. */
const setUp = async (t: Test) => {
  const ports = new Map<Name, number>()
  for (const name of names) ports.set(name, await freeTcpPort())
  const [a, b] = [(await namedEcho(t, 'a')).endpoint, (await namedEcho(t, 'b')).endpoint]
  const [dead, gone] = [
    endpoint(testHost, await freeTcpPort()),
    endpoint(testHost, await freeTcpPort()),
  ]
  const silent = await silentBackend(t)
  const endpoints: Readonly<Record<Name, readonly RelayEndpoint[]>> = {
    'all-up': [a, b],
    'one-down': [a, dead],
    'all-down': [dead, gone],
    'all-down-hold': [dead, gone],
    cooling: [a, silent],
    failing: [dead],
    none: [],
    paused: [a],
    drained: [a, b],
  }
  const annotations: Partial<Record<Name, object>> = {
    'one-down': { 'usher-proxy.io/check': 'tcp' },
    'all-down': { 'usher-proxy.io/check': 'tcp' },
    'all-down-hold': { 'usher-proxy.io/check': 'tcp', 'usher-proxy.io/hold': '300s' },
  }
  const objects = names.flatMap(name => {
    const made = service(name, testHost, [{ name: 'p', port: ports.get(name) ?? 0 }])
    const metadata = { name, annotations: annotations[name] ?? {} }
    return [{ ...made, metadata }, ...slice(name, endpoints[name])]
  })
  const file = await manifestFile(t, ...objects)
  const socket = await socketPath(t)
  const flags = [`--manifests=${file.path}`, `--control-socket=${socket}`]
  const usher = await startUsher(t, 'run', ...flags)
  const command = async (...args: string[]): Promise<string> => {
    const { out, err } = await runUsher(...args, '--control-socket', socket)
    return out === '' ? err : out
  }
  const port = (name: Name): number => ports.get(name) ?? 0
  return { usher, command, port, file, drained: a }
}

/** What the page is sent first. */
const firstLook = async (metrics: string): Promise<string> => {
  const stop = new AbortController()
  const { body } = await fetch(`http://${metrics}/stream`, { signal: stop.signal })
  let text = ''
  for await (const piece of body ?? []) {
    text += Buffer.from(piece as Uint8Array).toString()
    if (text.includes('\nevent: tick\n')) break
  }
  stop.abort()
  return text
}

const pageStates = async (metrics: string): Promise<States> => {
  const states: Record<string, unknown> = {}
  const text = await firstLook(metrics)
  for (const [, data = ''] of text.matchAll(/^event: rows\ndata: (.*)$/gm))
    for (const [, row] of JSON.parse(data) as Events['rows'])
      states[named(row.servicePort)] = row.state
  return states
}

const pageHead = async (metrics: string): Promise<unknown> => {
  const text = await firstLook(metrics)
  return JSON.parse(/^event: head\ndata: (.*)$/m.exec(text)?.[1] ?? '{}')
}

t.test('a Service has one state, and each view has the same word for it', async t => {
  const { usher, command, port, file, drained } = await setUp(t)
  await command('drain', drained.key, '--route', 'default/drained:p')
  await command('pause', 'default/paused:p')
  const waiting = [dial(t, port('all-down-hold')), dial(t, port('paused'))]
  for (const socket of waiting) socket.on('error', () => {})

  const listed = async (...args: string[]) => {
    const { items } = JSON.parse(await command('get', ...args, '-o', 'json')) as {
      readonly items: readonly Readonly<Record<string, unknown>>[]
    }
    return items
  }
  const states = async (): Promise<States> =>
    Object.fromEntries(
      (await listed('services')).map(({ name, state }) => [named(String(name)), state]),
    )

  // Cooling down and failing are over after some seconds: there are always clients.
  const over = new AbortController()
  const clients = Promise.all([
    (async () => {
      while (!over.signal.aborted) await firstWord(port('cooling'))
    })(),
    (async () => {
      while (!over.signal.aborted) await ask(port('failing'))
    })(),
  ])
  t.teardown(async () => {
    over.abort()
    await clients
  })
  await until('all are as they are to be', async () => {
    const now = await states()
    return names.every(name => now[name] === words[name])
  })

  t.test('usher get', async t => {
    t.strictSame(await states(), words)
    const lines = (await command('get', 'services')).split('\n')
    for (const name of names) {
      const line = lines.find(one => one.startsWith(`default    ${name} `)) ?? ''
      const [state, endpoints] = expected[name]
      t.match(line, new RegExp(` ${endpoints} .* ${state}( |$)`), line)
    }
    const held = await listed('services', 'default/all-down-hold:p')
    t.match(held, [{ waiting: 1 }])
  })

  t.test('usher top', async t => {
    const lines = (await command('top', '--once')).split('\n')
    for (const name of names) {
      const line = lines.find(one => one.startsWith(`default/${name}:p `)) ?? ''
      t.match(
        line,
        new RegExp(`:p +${words[name]}( \\d+s)? +${expected[name][1]} `),
        line,
      )
    }
  })

  t.test('usher status', async t => {
    const { out } = await runUsher('status', '--address', usher.metrics)
    t.match(out, /^health +runs, 2 Services down, 1 failing, /m)
    for (const name of names)
      t.match(out, new RegExp(`^default/${name}:p TCP IPv4 {2}${words[name]}(:|$)`, 'm'))
    t.match(out, 'tried all the same')
    const bySocket = await command('status')
    t.match(bySocket, /^health +runs, 2 Services down, 1 failing, /m)
  })

  t.test('usher explain', async t => {
    for (const name of names) {
      const address = `${testHost}:${port(name)}`
      const answer = await command('explain', testHost, address)
      t.match(answer, new RegExp(`^state +${words[name]}(:|$)`, 'm'), name)
    }
    const down = await command('explain', testHost, `${testHost}:${port('all-down')}`)
    t.match(down, /yes +(next; )?down, tried all the same/)
  })

  t.test('the page', async t => t.strictSame(await pageStates(usher.metrics), words))

  t.test('the metric', async t => {
    const { body } = await get(usher.metrics, '/metrics')
    const line =
      /^usher_service_state\{service_port="default\/(.*):p",.*,state="(.*)"\} 1$/gm
    const found = Array.from(body.matchAll(line), ([, name = '', state]) => [name, state])
    t.strictSame(Object.fromEntries(found), words)
  })

  t.test(
    'a source that cannot be read changes no state, and each view says so',
    async t => {
      await file.writeText('a: [')
      const away = /source error/
      const status = async (): Promise<string> =>
        (await runUsher('status', '--address', usher.metrics)).out
      await until('it is known', async () => away.test(await status()))
      t.match(await pageHead(usher.metrics), { source: { error: file.path } })
      t.match(await get(usher.metrics, '/metrics'), { body: /^usher_source_ok 0$/m })
      t.match(await command('get', 'services'), /^default /m)
      t.strictSame(await states(), words)
    },
  )
})
