// A process of its own: it mostly waits.
import t, { type Test } from 'tap'
import { runTool } from '../../src/kernel/run-tool.ts'
import type { Events } from '../../src/page/wire.ts'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { socketPath } from '../support/control-socket.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { silentBackend } from '../support/silent-backend.ts'
import { ask, dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { netnsProblem } from '../support/netns.ts'
import { metricsPort } from '../support/net/node-usher.ts'
import { get, runUsher, startUsher } from '../support/usher.ts'
import { usherIn } from '../support/usher-in.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'
import { crashes, placeTool } from './capture/node-tools.ts'

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
type Look = () => Promise<string>

/** Reads it, wherever it runs. */
const lookProgram = (metrics: string): string => `(async () => {
  const { body } = await fetch('http://${metrics}/stream')
  let text = ''
  for await (const piece of body) {
    text += Buffer.from(piece)
    if (text.includes('\\nevent: tick\\n')) break
  }
  process.stdout.write(text, () => process.exit())
})()`

const pageStates = async (look: Look): Promise<States> => {
  const states: Record<string, unknown> = {}
  const text = await look()
  for (const [, data = ''] of text.matchAll(/^event: rows\ndata: (.*)$/gm))
    for (const [, row] of JSON.parse(data) as Events['rows'])
      states[named(row.servicePort)] = row.state
  return states
}

const pageHead = async (look: Look): Promise<unknown> => {
  const text = await look()
  return JSON.parse(/^event: head\ndata: (.*)$/m.exec(text)?.[1] ?? '{}')
}

const metricStates = (exposition: string): States => {
  const line =
    /^usher_service_state\{service_port="default\/(.*):p",.*,state="(.*)"\} 1$/gm
  const found = exposition.matchAll(line)
  return Object.fromEntries(Array.from(found, ([, name = '', state]) => [name, state]))
}

t.test('a Service has one state, and each view has the same word for it', async t => {
  const { usher, command, port, file, drained } = await setUp(t)
  const look = () => runTool(process.execPath, ['-e', lookProgram(usher.metrics)])
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

  t.test('the page', async t => t.strictSame(await pageStates(look), words))

  t.test('the metric', async t => {
    const { body } = await get(usher.metrics, '/metrics')
    t.strictSame(metricStates(body), words)
  })

  t.test(
    'a source that cannot be read changes no state, and each view says so',
    async t => {
      await file.writeText('a: [')
      const away = /source error/
      const status = async (): Promise<string> =>
        (await runUsher('status', '--address', usher.metrics)).out
      await until('it is known', async () => away.test(await status()))
      t.match(await pageHead(look), { source: { error: file.path } })
      t.match(await get(usher.metrics, '/metrics'), { body: /^usher_source_ok 0$/m })
      t.match(await command('get', 'services'), /^default /m)
      t.strictSame(await states(), words)
    },
  )
})

const why = await netnsProblem('iptables', 'nft', 'conntrack')

t.test('a kernel mode, and rules that stay', { skip: why !== '' && why }, async t => {
  const { node, agent, manifests, tools, start } = await makeOneNode(t, 'states')
  const none = service('none', '10.96.0.41', [{ name: 'p', port: 80 }])
  await manifests.write(...dualService('web', ['10.96.0.40', 'fd00:96::40']), none)
  const usher = start('--proxy-mode=nftables')
  await usher.ready(3)
  const inKernel = { web: 'ok', none: 'no endpoints' }
  const command = async (...line: string[]): Promise<string> =>
    (await usherIn(node, line)).out
  const look = () =>
    node.run(process.execPath, ['-e', lookProgram(`127.0.0.1:${metricsPort}`)])

  await t.test('what the kernel does not count is not 0', async t => {
    const wide = await command('get', 'services')
    t.match(wide, /^default +none .* no endpoints$/m)
    t.match(wide, /^default +web .* 1\/1 .* - .* ok$/m)
    const { items } = JSON.parse(await command('get', 'services', '-o', 'json')) as {
      readonly items: readonly { readonly name: string; readonly active: unknown }[]
    }
    for (const { name, active } of items) t.equal(active, null, name)
    const top = await command('top', '--once')
    t.match(top, /^default\/web:p +ok +1\/1 .* -/m)
    t.match(top, /^default\/none:p +no endpoints +0\/0 /m)
    const status = await command('status')
    t.match(status, /^health +runs, 1 Service without endpoints$/m)
    t.match(status, /^default\/web:p TCP IPv6 {2}ok$/m)
    const explained = await command('explain', '198.51.100.1', '10.96.0.40:80')
    t.match(explained, /^state +ok$/m)
    t.strictSame(await pageStates(look), inKernel)
    const { body } = await agent.get('127.0.0.1', metricsPort, '/metrics')
    t.strictSame(metricStates(body), inKernel)
  })

  await t.test('rules that stay in force are in each headline', async t => {
    await placeTool(tools, 'nft', crashes)
    await manifests.write(...dualService('web', ['10.96.0.42', 'fd00:96::42']), none)
    const stays = /nftables.* in force/
    await until('it is known', async () => stays.test(await command('status')))
    t.match(await command('status'), /^health +runs, .*1 problem/m)
    t.match(await pageHead(look), { problems: { length: 1 } })
    t.strictSame(await pageStates(look), inKernel)
  })
})
