import t from 'tap'
import type { Cell } from '../../src/cli/text-table.ts'
import { endpointRows, serviceRows } from '../../src/cli/top-rows.ts'
import type {
  EndpointStatus,
  TopPort,
  ServicePortStatus,
} from '../../src/observe/status.ts'

const endpoint = (name: string, failures: number): EndpointStatus => ({
  endpoint: name,
  state: 'ready',
  eligible: true,
  clients: 'all',
  active: 1,
  failures,
  coolingDown: false,
  drained: null,
  weight: 1,
  weightSince: null,
  check: null,
})

/** Of it `usher top` asks for a part. */
type Port = Omit<ServicePortStatus, keyof TopPort> & TopPort

const nothing: Omit<Port, 'servicePort'> = {
  protocol: 'TCP',
  family: 'IPv4',
  affinityMs: 0,
  verdicts: { internal: 'forward', external: 'forward', node: 'forward' },
  sourceRanges: null,
  vips: [],
  endpoints: [],
  endpointCounts: { usable: 0, all: 0 },
  state: 'no endpoints',
  options: {},
  paused: null,
  holdMs: 0,
  active: 0,
  accepted: 0,
  failed: 0,
  failedBy: {},
  retries: 0,
  held: 0,
  holdRefused: 0,
  queued: 0,
  bytesToBackend: 0,
  bytesToClient: 0,
  datagrams: 0,
  lastError: '',
}

const port = (name: string, more: Partial<Port> = {}): Port => ({
  ...nothing,
  servicePort: `default/${name}:p`,
  ...more,
})

const text = (cell: string | Cell | undefined): string =>
  typeof cell === 'object' ? cell.text : (cell ?? '')

t.test('figures a second are of what has changed between two looks', async t => {
  const before = [port('a', { accepted: 10, bytesToClient: 1024 }), port('b')]
  const after = [
    port('a', { accepted: 30, failed: 1, retries: 4, bytesToClient: 5120, active: 7 }),
    port('b', { accepted: 100 }),
    port('new', { accepted: 1000 }),
  ]
  const rows = serviceRows({ before, after, seconds: 2 }, 'new')
  t.strictSame(
    rows.map(row => row.map(text)),
    [
      [
        'NAME',
        'STATE',
        'ENDPOINTS',
        'ACTIVE',
        'NEW/S',
        'FAILED/S',
        'RETRIES/S',
        'TO-BACKENDS/S',
        'TO-CLIENTS/S',
        'PROTOCOL',
      ],
      ['default/b:p', 'no endpoints', '0/0', '0', '50', '0', '0', '0 B', '0 B', 'TCP'],
      [
        'default/a:p',
        'no endpoints',
        '0/0',
        '7',
        '10',
        '0.5',
        '2.0',
        '0 B',
        '2.0 KiB',
        'TCP',
      ],
      ['default/new:p', 'no endpoints', '0/0', '0', '0', '0', '0', '0 B', '0 B', 'TCP'],
    ],
  )
})

t.test('each sorting puts another first, and what is equal goes by name', async t => {
  const before = ['a', 'b', 'c', 'd', 'e'].map(name => port(name))
  const after = [
    port('e', { active: 5 }),
    port('d', { failed: 1 }),
    port('c', { retries: 1 }),
    port('b', { bytesToBackend: 1 }),
    port('a', { accepted: 1 }),
  ]
  const first = {
    new: 'a',
    active: 'e',
    failed: 'd',
    retries: 'c',
    bytes: 'b',
    name: 'a',
  } as const
  for (const [sorting, name] of Object.entries(first)) {
    const rows = serviceRows({ before, after, seconds: 1 }, sorting as keyof typeof first)
    const names = rows.slice(1).map(([cell]) => text(cell).slice('default/'.length, -2))
    const rest = ['a', 'b', 'c', 'd', 'e'].filter(one => one !== name)
    t.strictSame(names, [name, ...rest], sorting)
  }
})

t.test('counters that begin anew have no rate below zero', async t => {
  const looks = { before: [port('a', { accepted: 9 })], after: [port('a')], seconds: 1 }
  t.equal(text(serviceRows(looks, 'new')[1]?.[4]), '0')
})

t.test('endpoints that fail most come first', async t => {
  const of = (...failures: number[]) => [
    port('a', {
      endpoints: failures.map((count, n) => endpoint(`10.0.0.${n}:80`, count)),
    }),
  ]
  const rows = endpointRows({ before: of(5, 5, 5), after: of(5, 9, 6), seconds: 1 })
  t.strictSame(
    rows.slice(1).map(row => [row[0], text(row[4])]),
    [
      ['10.0.0.1:80', '4.0'],
      ['10.0.0.2:80', '1.0'],
      ['10.0.0.0:80', '0'],
    ],
  )
})
