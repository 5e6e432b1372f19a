import t from 'tap'
import type { AccessEntry } from '../../../src/relay/access-log/access-entry.ts'
import {
  ReceivedLines,
  WaitingLines,
} from '../../../src/relay/access-log/access-lines.ts'
import { jsonFields, jsonLines } from '../../../src/relay/access-log/json-line.ts'
import { tcplogLines } from '../../../src/relay/access-log/tcplog-line.ts'
import {
  localText,
  syslogText,
  utcText,
} from '../../../src/relay/access-log/time-text.ts'
import type { Attempt, ConnectionRecord } from '../../../src/relay/cause.ts'

const attempt = (endpoint: string, result: string, ms = 1.23456): Attempt => ({
  endpoint,
  result,
  ms,
})

const entryOf = (
  record: Partial<ConnectionRecord> = {},
  over: Partial<AccessEntry> = {},
): AccessEntry => ({
  record: {
    listener: 'route/db',
    client: '192.0.2.1:4000',
    endpoint: '10.0.0.5:5432',
    attempts: [attempt('10.0.0.5:5432', 'connected')],
    bytesToBackend: 1,
    bytesToClient: 2,
    dialMs: 3.12349,
    totalMs: 1500.5,
    cause: '--',
    detail: '',
    ...record,
  },
  waited: { heldMs: 0, queuedMs: 0 },
  endedAt: Date.UTC(2026, 10, 23, 20, 15, 32, 7),
  open: { all: 3, route: 2, endpoint: 1 },
  ...over,
})

const route = {
  to: 'stdout',
  route: 'db',
  bind: { address: '::1', port: 15432 },
} as const
const json = jsonLines({ ...route, format: 'json' })
const tcplog = tcplogLines({ ...route, format: 'tcplog' })
const parsed = (entry: AccessEntry): Record<string, unknown> =>
  JSON.parse(json(entry)) as Record<string, unknown>

t.test('JSON', async t => {
  t.match(parsed(entryOf()), {
    time: '2026-11-23T20:15:32.007Z',
    'usher.accepted_time': '2026-11-23T20:15:30.506Z',
    'server.address': '::1',
    'server.port': 15432,
    'usher.attempts': [{ ms: 1.235 }],
    'usher.dial_ms': 3.123,
    'usher.total_ms': 1500.5,
  })
  const v6 = parsed(entryOf({ client: '[2001:db8::1]:9', endpoint: '[fd00::5]:53' }))
  t.match(v6, {
    'network.type': 'ipv6',
    'client.address': '2001:db8::1',
    'client.port': 9,
    'network.peer.address': 'fd00::5',
    'network.peer.port': 53,
    'usher.endpoint': '[fd00::5]:53',
  })
  const path = parsed(entryOf({ client: '', endpoint: 'unix:/run/"db"' }))
  t.match(path, { 'client.address': '', 'network.peer.address': 'unix:/run/"db"' })
  t.notOk('client.port' in path || 'network.peer.port' in path)
  const many = Array.from({ length: 40 }, () => attempt('10.0.0.5:5432', 'refused'))
  const failed = parsed(
    entryOf({ endpoint: '', attempts: many, cause: 'SC', detail: 'a "reason"\n' }),
  )
  t.equal((failed['usher.attempts'] as unknown[]).length, 16)
  t.match(failed, { 'usher.more_attempts': 24, 'usher.detail': 'a "reason"\n' })
  const names = new Set(jsonFields.map(({ name }) => name))
  for (const one of [v6, failed])
    for (const name of Object.keys(one)) t.ok(names.has(name), name)
  t.notOk(
    'server.address' in
      (JSON.parse(
        jsonLines({ ...route, format: 'json', bind: undefined })(entryOf()),
      ) as object),
  )
})

t.test('as HAProxy writes it', async t => {
  const time = localText()(entryOf().endedAt - 1500.5)
  const start = `192.0.2.1:4000 [${time}] db db/`
  const rest = (entry: AccessEntry): string => {
    const line = tcplog(entry)
    t.ok(line.startsWith(start) && line.endsWith('\n'), line)
    return line.slice(start.length, -1)
  }
  t.equal(rest(entryOf()), '10.0.0.5:5432 0/3/1501 2 -- 4/3/2/1/0 0/0')
  t.equal(
    rest(entryOf({ dialMs: 103 }, { waited: { heldMs: 60, queuedMs: 40 } })),
    '10.0.0.5:5432 100/3/1501 2 -- 4/3/2/1/0 0/0',
    'waiting is not connecting',
  )
  const refused = attempt('10.0.0.6:5432', 'refused')
  t.equal(
    rest(entryOf({ attempts: [refused, attempt('10.0.0.5:5432', 'connected')] })),
    '10.0.0.5:5432 0/3/1501 2 -- 4/3/2/1/+1 0/0',
    'redispatched',
  )
  t.equal(
    rest(entryOf({ attempts: [refused, refused], endpoint: '', cause: 'SC' })),
    '10.0.0.6:5432 0/-1/1501 2 SC 4/3/2/1/1 0/0',
  )
  t.equal(
    rest(entryOf({ attempts: [], endpoint: '', cause: 'PR' })),
    '<NOSRV> -1/-1/1501 2 PR 4/3/2/1/0 0/0',
  )
  t.match(tcplog(entryOf({ client: '[2001:db8::1]:9' })), /^2001:db8::1:9 \[/)
})

t.test('times', async t => {
  const text = utcText()
  t.equal(text(0), '1970-01-01T00:00:00.000Z')
  t.equal(text(999.9), '1970-01-01T00:00:00.999Z')
  t.equal(text(1000), '1970-01-01T00:00:01.000Z')
  t.equal(text(0.1), '1970-01-01T00:00:00.000Z', 'also back')
  const date = new Date(2026, 1, 3, 4, 5, 6, 7)
  t.equal(localText()(date.getTime()), '03/Feb/2026:04:05:06.007')
  t.equal(syslogText(date.getTime()), 'Feb  3 04:05:06')
})

t.test(
  'a worker that dies takes with it what it had not handed over, and its connections',
  async t => {
    const lines = new ReceivedLines()
    const logged = {
      name: 'r',
      accessLog: { format: 'json', to: 'stdout', route: 'r' },
    } as const
    const batch = { listener: 'r', to: 'stdout', text: '' }
    lines.received({ ...batch, lines: 3, lost: 1 })
    t.match(lines.lost(logged, { accessLines: 6, active: 5 }), { lines: 0, lost: 7 })
    t.equal(lines.lost(logged, { accessLines: 6, active: 0 }), undefined, 'said once')
    const without = { name: 'r', accessLog: undefined }
    t.match(lines.lost(without, { accessLines: 8, active: 5 }), { lost: 2 })
    lines.forget('r')
    t.match(lines.lost(logged, { accessLines: 2, active: 0 }), { lost: 2 })
  },
)

t.test('lines that nobody takes are bounded for each route, and counted', async t => {
  const waiting = new WaitingLines()
  const text = `${'x'.repeat(1024 * 1024 - 1)}\n`
  const batch = { to: 'stdout', text, lines: 2, lost: 0 }
  for (let i = 0; i < 6; i += 1) waiting.add({ ...batch, listener: 'many' })
  waiting.add({ ...batch, listener: 'few', lost: 1 })
  const taken = waiting.take()
  t.strictSame(
    taken.map(({ listener, lines, lost, text: all }) => [
      listener,
      lines,
      lost,
      all.length / text.length,
    ]),
    [
      ['many', 8, 4, 4],
      ['few', 2, 1, 1],
    ],
  )
  t.ok(waiting.isEmpty)
})
