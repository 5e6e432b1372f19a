import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { outputSchemas } from '../../scripts/output-schemas.ts'
import { main } from '../../src/cli/dispatch.ts'
import { commandNames, isCommand } from '../../src/config/commands.ts'
import { listedKinds } from '../../src/config/options/control.ts'
import { parseOptions } from '../../src/config/parse.ts'
import type { OpenConnection } from '../../src/relay/open-connections.ts'
import type { StatusDocument } from '../../src/observe/status.ts'
import { put, service, slice } from '../support/objects.ts'
import { publishedSchema } from '../support/output-schema.ts'
import { controlSocket, ran } from '../proxy/control-fixture.ts'
import { consoleSteps } from './console-blocks.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

const page = read('docs/operating.md')

const examples = consoleSteps(page)

const ago = (ms: number): string => new Date(Date.now() - ms).toISOString()

const endpoint = (name: string): StatusDocument['servicePorts'][0]['endpoints'][0] => ({
  endpoint: name,
  state: 'ready',
  eligible: true,
  clients: 'all',
  active: 1,
  failures: 0,
  coolingDown: false,
  drained: null,
  weight: 1,
  weightSince: null,
  check: null,
})

/** Of the sidecar that the page is about. */
const status = (): object => ({
  version: '1.0.0',
  mode: 'userspace',
  startedAt: ago(0),
  healthy: true,
  unhealthy: [],
  draining: false,
  source: { name: 'routes', synced: true, error: '' },
  problems: [],
  fds: { used: 0, limit: 0 },
  acceptPaused: false,
  servicePorts: [
    {
      servicePort: 'route/db',
      protocol: 'TCP',
      family: 'IPv4',
      affinityMs: 0,
      vips: [
        {
          kind: 'ClusterIP',
          vip: '127.0.0.1:15432',
          capture: 'local',
          listen: '127.0.0.1:15432',
          state: 'listening',
          reason: '',
        },
      ],
      endpointCounts: { usable: 1, all: 2 },
      state: 'draining',
      reason: '10.0.0.5:5432 drained by order',
      endpoints: [
        {
          ...endpoint('10.0.0.5:5432'),
          drained: { since: ago(90_000), until: null, close: 'none' },
        },
        { ...endpoint('10.0.0.6:5432'), active: 2, weight: 10, weightSince: ago(0) },
      ],
      active: 3,
      accepted: 3,
      failed: 0,
      retries: 0,
      bytesToBackend: 0,
      bytesToClient: 0,
      datagrams: 0,
      lastError: '',
    },
  ],
})

const connection = (over: Partial<OpenConnection>): OpenConnection => ({
  id: '1-mf3k2a9x-417',
  listener: 'route/db',
  client: '127.0.0.1:50312',
  endpoint: '10.0.0.5:5432',
  state: 'open',
  ageMs: 7_440_000,
  bytesToBackend: 1536,
  bytesToClient: 3 << 20,
  idleMs: 4000,
  ...over,
})

const connections = [
  connection({}),
  connection({
    id: '1-mf3k2a9x-502',
    client: '127.0.0.1:50718',
    endpoint: '10.0.0.6:5432',
    ageMs: 12_000,
    bytesToBackend: 96,
    bytesToClient: 512,
  }),
]

const setUp = (t: Test) => {
  const db = service('db', { namespace: 'route' })
  const addresses = slice(['10.0.0.5', '10.0.0.6'], {
    namespace: 'route',
    serviceName: 'db',
    ports: [{ name: '', protocol: 'TCP', port: 5432 }],
  })
  const port = { name: '', protocol: 'TCP', port: 15_432, nodePort: 0 } as const
  return controlSocket(
    t,
    [put({ ...db, ports: [port] }), put(addresses)],
    {
      connections: async () => ({ connections, counted: 0, next: undefined }),
      'close-connections': async ids => ids,
    },
    status,
  )
}

t.test('the examples print what the page says', async t => {
  const { path } = await setUp(t)
  t.ok(examples.length > 7)
  for (const { line, printed } of examples) {
    const [, ...words] = line.split(' ')
    const done = await ran(main, [...words, '--control-socket', path])
    t.strictSame(done, { code: 0, out: printed, err: '' }, line)
  }
  const { out } = await ran(main, [
    'get',
    'connections',
    '-o',
    'json',
    '--control-socket',
    path,
  ])
  const [, json = ''] = /```json\n([^]*?)```/.exec(page) ?? []
  const { items, ...rest } = JSON.parse(out) as { items: unknown[] }
  t.strictSame({ ...rest, items: items.slice(0, 1) }, JSON.parse(json))
})

t.test('documents are what the schemas say', async t => {
  const { path } = await setUp(t)
  const schemas = await outputSchemas()
  for (const [file, text] of schemas) t.equal(read(file), text, `npm run docs: ${file}`)
  const isDocument = publishedSchema('output')
  for (const kind of listedKinds) {
    const all = ['get', kind, '-o', 'json', '--control-socket', path]
    const document = JSON.parse((await ran(main, all)).out) as { items: object[] }
    t.ok(isDocument(document), `${kind}: ${JSON.stringify(isDocument.errors)}`)
    const [item] = document.items
    if (item === undefined) continue
    const [field = ''] = Object.keys(item)
    t.notOk(isDocument({ ...document, items: [{ ...item, [field]: undefined }] }), field)
  }
})

t.test('its commands are understood, and are all that there are', async t => {
  for (const { line } of examples) {
    const [, name = '', ...words] = line.split(' ')
    const command = commandNames.find(one => one === name) ?? 'status'
    t.doesNotThrow(() => parseOptions(command, words), line)
  }
  for (const [, name = ''] of page.matchAll(/`usher ([a-z]+)/g))
    t.ok(isCommand(name), name)
})
