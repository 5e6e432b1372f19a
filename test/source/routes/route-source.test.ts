import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Change, EndpointSlice } from '../../../src/model/service.ts'
import type { Problem } from '../../../src/model/snapshot.ts'
import type { HostWatchTimes } from '../../../src/source/routes/host-watch.ts'
import { placeAt, type Resolved } from '../../../src/source/routes/place.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import { routeObject } from '../../../src/source/routes/route-objects.ts'
import { routeSource } from '../../../src/source/routes/route-source.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import * as objects from '../../support/objects.ts'
import { put } from '../../support/objects.ts'
import { until } from '../../support/until.ts'
import { unknownOption } from './bad-values.ts'

t.test('a route is read in all the forms it may have', async t => {
  const cases: [string, unknown][] = [
    [
      'tcp://127.0.0.1:15432=10.0.0.5:5432,DB.example:5432',
      {
        protocol: 'TCP',
        listens: [{ address: '127.0.0.1', port: 15432 }],
        backends: [
          { host: '10.0.0.5', port: 5432 },
          { host: 'db.example', port: 5432 },
        ],
        affinityMs: 0,
      },
    ],
    [
      'udp://[0::1]:53=[FD00::0053]:53,10.0.0.1:5353',
      {
        protocol: 'UDP',
        listens: [{ address: '::1', port: 53 }],
        backends: [
          { host: 'fd00::53', port: 53 },
          { host: '10.0.0.1', port: 5353 },
        ],
        affinityMs: 0,
      },
    ],
    [
      'tcp://127.0.0.1:1=srv:_Pg._tcp.Example.,srv:5432,SRV:a?affinity=1s',
      {
        backends: [
          { host: '_pg._tcp.example.', port: 0, srv: true },
          { host: 'srv', port: 5432 },
          { host: 'a', port: 0, srv: true },
        ],
      },
    ],
    [
      'tcp://0.0.0.0:80,TCP://[::]:80,unix:/run/a,b=10.0.0.5:1?socket-mode=600',
      {
        name: 'tcp-0-0-0-0-80',
        listens: [
          { address: '0.0.0.0', port: 80 },
          { address: '::', port: 80 },
          { address: 'unix:/run/a,b?mode=600', port: 0 },
        ],
      },
    ],
    ['tcp://0.0.0.0:80=my_db.:1?affinity=3h', { affinityMs: 10_800_000 }],
    ['TCP://[::]:80=a:1?affinity=1h30m', { affinityMs: 5_400_000 }],
  ]
  for (const [text, route] of cases) t.match(parseRoute(text), { text, ...Object(route) })
})

t.test('a bad route is told with its text, the part and what is right', async t => {
  const whole =
    'is not LISTEN=HOST:PORT[,HOST:PORT...][|HOST:PORT...][?OPTION=VALUE[&...]] with tcp://ADDRESS:PORT, udp://ADDRESS:PORT or unix:/PATH for LISTEN, or several with commas; give one like tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'
  const listen =
    'is not ADDRESS:PORT with a port from 1 to 65535, like 127.0.0.1:15432 or [::1]:15432'
  const backend =
    'is not HOST:PORT with a port from 1 to 65535, like 10.0.0.5:5432, [fd00::5]:5432, db.example:5432'
  const srv =
    'is not srv:NAME with a name that has SRV records, like srv:_pg._tcp.example; they have the port'
  const address = 'is not an IP address; give one like 127.0.0.1, or 0.0.0.0 for all'
  const group =
    'is a multicast or broadcast address; give one of this host, like 127.0.0.1, or 0.0.0.0 for all'
  const host =
    'is neither an IP address nor a host name; give one like 10.0.0.5:5432 or db.example:5432'
  const duration = 'is not a duration from 1s to 24h, like 3h'
  const option = unknownOption
  const cases: [string, string][] = [
    ['', whole],
    ['127.0.0.1:1=10.0.0.1:1', whole],
    ['tcp://127.0.0.1:1', whole],
    [
      'tcp://127.0.0.1:1,udp://127.0.0.1:1=10.0.0.1:1',
      'listen is UDP, but the first address is TCP; give each protocol a route of its own',
    ],
    [
      'tcp://127.0.0.1:1,tcp://[::1]:1=[::1]:1',
      'endpoint "[::1]:1" is the route itself; give another port',
    ],
    ['tcp://127.0.0.1:1,unix:/a=b:1?affinity=1s', 'affinity needs the address'],
    ['sctp://127.0.0.1:1=10.0.0.1:1', 'listen protocol "sctp" is not tcp or udp'],
    ['tcp://127.0.0.1=10.0.0.1:1', `listen address "127.0.0.1" ${listen}`],
    ['tcp://127.0.0.1:0=10.0.0.1:1', `listen address "127.0.0.1:0" ${listen}`],
    [
      'tcp://::1:53=10.0.0.1:1',
      'listen address "::1:53" has IPv6 without brackets; write [::1]:53',
    ],
    ['tcp://localhost:1=10.0.0.1:1', `listen address "localhost:1" ${address}`],
    ['tcp://[fe80::1%lo]:1=10.0.0.1:1', `listen address "[fe80::1%lo]:1" ${address}`],
    ['udp://224.0.0.251:53=10.0.0.1:1', `listen address "224.0.0.251:53" ${group}`],
    [
      'udp://255.255.255.255:67=10.0.0.1:1',
      `listen address "255.255.255.255:67" ${group}`,
    ],
    ['udp://[ff02::fb]:53=10.0.0.1:1', `listen address "[ff02::fb]:53" ${group}`],
    ['tcp://127.0.0.1:1=', `endpoint "" ${backend}`],
    ['tcp://127.0.0.1:1=a:1,', `endpoint "" ${backend}`],
    ['tcp://127.0.0.1:1=a', `endpoint "a" ${backend}`],
    ['tcp://127.0.0.1:1=a:70000', `endpoint "a:70000" ${backend}`],
    ['tcp://127.0.0.1:1=10.0.0.256:1', `endpoint "10.0.0.256:1" ${host}`],
    ['tcp://127.0.0.1:1=127.1:1', `endpoint "127.1:1" ${host}`],
    ['tcp://127.0.0.1:1=0x7f.0x1:1', `endpoint "0x7f.0x1:1" ${host}`],
    ['tcp://127.0.0.1:1=-a:1', `endpoint "-a:1" ${host}`],
    ['tcp://127.0.0.1:1=a b\n:1', String.raw`endpoint "a b\u000a:1" ${host}`],
    [
      `tcp://127.0.0.1:1=${'a.'.repeat(127)}b:1`,
      `endpoint "${'a.'.repeat(40)}..." ${host}`,
    ],
    ['tcp://127.0.0.1:1=srv:', `endpoint "srv:" ${srv}`],
    ['tcp://127.0.0.1:1=srv:_pg._tcp.a:5432', `endpoint "srv:_pg._tcp.a:5432" ${srv}`],
    ['tcp://127.0.0.1:1=srv:10.0.0.1', `endpoint "srv:10.0.0.1" ${srv}`],
    ['tcp://127.0.0.1:1=srv:a,srv:A', 'endpoint "srv:a" is given twice; give it once'],
    [
      'tcp://127.0.0.1:1=0.0.0.0:2',
      'endpoint "0.0.0.0:2" is not the address of one host; give one like 10.0.0.5:5432',
    ],
    ['tcp://127.0.0.1:1=a:1,A:1', 'endpoint "a:1" is given twice; give it once'],
    [
      'tcp://127.0.0.1:1=127.0.0.1:1',
      'endpoint "127.0.0.1:1" is the route itself; give another port',
    ],
    ['tcp://[::]:1=[::1]:1', 'endpoint "[::1]:1" is the route itself; give another port'],
    ['tcp://127.0.0.1:1=a:1?affinity=soon', `affinity "soon" ${duration}`],
    ['tcp://127.0.0.1:1=a:1?affinity=999ms', `affinity "999ms" ${duration}`],
    ['tcp://127.0.0.1:1=a:1?affinity=25h', `affinity "25h" ${duration}`],
    ['tcp://127.0.0.1:1=a:1?sticky=1s', `option "sticky" ${option}`],
    ['tcp://127.0.0.1:1=a:1?', `option "" ${option}`],
  ]
  t.doesNotThrow(() => parseRoute('tcp://[::]:1=127.0.0.1:1'), 'of another family')
  for (const [text, message] of cases) {
    const shown = JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text)
    const named = `route ${shown.replaceAll(String.raw`\n`, String.raw`\u000a`)}: ${message}`
    t.throws(() => parseRoute(text), { message: named }, named)
  }
})

t.test('two routes may not listen on the same address', async t => {
  const routes = ['tcp://[::1]:1=a:1', 'udp://[::1]:1=a:1', 'tcp://[0::1]:1=b:1']
  t.throws(() => routeSource({ routes: routes.map(parseRoute) }), {
    message:
      'route "tcp://[0::1]:1=b:1": tcp://[::1]:1 is taken by route "tcp://[::1]:1=a:1"; give each route an address or port of its own',
  })
})

/** An answer that comes when the test gives it. */
const later = () => {
  const waiting: ((found: Resolved) => void)[] = []
  return {
    answer: new Promise<Resolved>(resolve => waiting.push(resolve)),
    give: (found: Resolved) => waiting[0]?.(found),
  }
}

type Answer = readonly string[] | Error | Promise<Resolved>

const quick: HostWatchTimes = {
  retryMs: 1,
  longestRetryMs: 4,
  attemptMs: 10_000,
  longestTtlMs: 300_000,
}

/** A source whose resolver gives the answers of `answers`, the last for ever. */
const fixture = (texts: string[], answers: Record<string, Answer[]>, ttlMs?: number) => {
  const clock = new FakeClock()
  const asked: string[] = []
  const errors: string[] = []
  const batches: (readonly Change[])[] = []
  const slices = new Map<string, EndpointSlice>()
  let problems: readonly Problem[] = []
  let synced = 0
  const source = routeSource({
    routes: texts.map(parseRoute),
    clock,
    times: quick,
    onError: error => errors.push(error.message),
    resolve: async host => {
      asked.push(host)
      const list = answers[host] ?? []
      const answer = list.length > 1 ? list.shift() : list[0]
      if (answer === undefined || answer instanceof Error)
        throw answer ?? new Error(`getaddrinfo ENOTFOUND ${host}`)
      return 'then' in answer ? answer : { addresses: answer, ttlMs }
    },
  })
  t.teardown(() => source.close())
  const started = source.start({
    apply: changes => {
      batches.push(changes)
      for (const change of changes)
        if (change.kind === 'EndpointSlice' && change.object)
          slices.set(change.name, change.object)
    },
    synced: () => synced++,
    problems: now => (problems = now),
  })
  return {
    source,
    clock,
    asked,
    errors,
    batches,
    started,
    synced: () => synced,
    problems: () =>
      problems.map(({ object, field, message }) => [object, field, message]),
    addresses: () =>
      [...slices.values()].map(slice => slice.endpoints.map(({ address }) => address)),
  }
}

t.test('a route is one Service and a slice for each backend, in one batch', async t => {
  const text = 'tcp://127.0.0.1:15432=[fd00::5]:5432,db:5433?affinity=10s'
  const { source, started, batches, synced } = fixture([text], { db: [['10.0.0.6']] })
  await started
  t.equal(synced(), 1)
  const own = { namespace: 'route' }
  const slice = (i: number, address: string, port: number) =>
    put(
      objects.slice([address], {
        ...own,
        name: `tcp-127-0-0-1-15432.${i}`,
        serviceName: 'tcp-127-0-0-1-15432',
        ports: [{ name: '', protocol: 'TCP', port }],
      }),
    )
  const service = objects.service('tcp-127-0-0-1-15432', {
    ...own,
    createdAt: 1,
    clusterIPs: [],
    listens: [{ address: '127.0.0.1', port: 15432 }],
    ports: [objects.portSpec({ name: '', port: 15432 })],
    affinityMs: 10_000,
    retry: { earlyClose: true, replay: 0 },
  })
  t.strictSame(batches, [
    [put(service), slice(0, 'fd00::5', 5432), slice(1, '10.0.0.6', 5433)],
  ])
  t.match(source.status(), { name: 'routes', synced: true, error: '' })
  t.type(source.status().lastGoodAt, 'number')
})

t.test('an answer that was cut off takes no address away', async t => {
  const part = (...addresses: string[]) =>
    Promise.resolve({ addresses, ttlMs: 60_000, faults: ['cut'], isPart: true })
  const answers = [
    ['10.0.0.1', '10.0.0.2'],
    part('10.0.0.2'),
    part('10.0.0.3'),
    ['10.0.0.4'],
  ]
  const { source, started, addresses } = fixture(['tcp://[::1]:1=db:1'], { db: answers })
  await started
  for (const wanted of [
    ['10.0.0.1', '10.0.0.2'],
    ['10.0.0.1', '10.0.0.2', '10.0.0.3'],
    ['10.0.0.4'],
  ]) {
    source.reload()
    await until('it is resolved', () => String(addresses()) === String(wanted))
  }
  t.equal(source.status().error, '')
})

t.test('routes without host names are there at once', async t => {
  const { started, asked, addresses } = fixture(['udp://[::1]:53=10.0.0.1:53'], {})
  await started
  t.strictSame([asked, addresses()], [[], [['10.0.0.1']]])
})

t.test(
  'a host is resolved again when its TTL is over, and only changes are told',
  async t => {
    const answers = {
      db: [['10.0.0.2', '10.0.0.1'], ['10.0.0.1', '10.0.0.2'], ['10.0.0.3']],
    }
    const { clock, started, asked, batches, addresses } = fixture(
      ['tcp://127.0.0.1:1=db:1,10.9.9.9:1', 'tcp://127.0.0.1:2=db:2'],
      answers,
      5000,
    )
    await started
    await until('the pause', () => clock.waiting === 1)
    t.equal(asked.length, 1, 'one host is asked for once for all its routes')
    clock.advance(4999)
    await new Promise(setImmediate)
    t.equal(asked.length, 1)
    clock.advance(1)
    await until('the second pause', () => asked.length === 2 && clock.waiting === 1)
    t.equal(batches.length, 1, 'another order is no change')
    clock.advance(5000)
    await until('the change', () => batches.length === 2)
    t.strictSame(addresses(), [['10.0.0.3'], ['10.9.9.9'], ['10.0.0.3']])
    t.strictSame(
      batches[1]?.map(({ name }) => name),
      ['tcp-127-0-0-1-1.0', 'tcp-127-0-0-1-2.0'],
    )
  },
)

t.test(
  'a TTL is held within 1 s and 5 min, and is 30 s when nobody knows it',
  async t => {
    const cases: [number | undefined, number][] = [
      [0, 1000],
      [-5, 1000],
      [Number.NaN, 30_000],
      [undefined, 30_000],
      [86_400_000, 300_000],
      [Infinity, 300_000],
    ]
    for (const [ttlMs, pause] of cases) {
      const { source, clock, started, asked } = fixture(
        ['tcp://127.0.0.1:1=db:1'],
        { db: [['10.0.0.1']] },
        ttlMs,
      )
      await started
      await until('the pause', () => clock.waiting === 1)
      clock.advance(pause - 1)
      await new Promise(setImmediate)
      t.equal(asked.length, 1, `${ttlMs} is not over before ${pause} ms`)
      clock.advance(1)
      await until(`${ttlMs} is over after ${pause} ms`, () => asked.length === 2)
      await source.close()
    }
  },
)

t.test(
  'a host that can’t be resolved at first has no endpoints until it can',
  async t => {
    const fail = new Error('getaddrinfo EAI_AGAIN db')
    const text = 'tcp://127.0.0.1:1=db:1'
    const answers = { db: [fail, fail, ['10.0.0.1'], fail] }
    const { source, clock, started, synced, errors, addresses, problems } = fixture(
      [text],
      answers,
    )
    await started
    t.equal(synced(), 1)
    t.strictSame(addresses(), [[]])
    const message = 'cannot resolve db: getaddrinfo EAI_AGAIN db'
    t.equal(source.status().error, message)
    t.equal(source.status().lastGoodAt, undefined)
    t.strictSame(problems(), [[`route "${text}"`, 'endpoint "db:1"', message]])
    await until('the addresses', () => {
      clock.advance(4)
      return addresses()[0]?.[0] === '10.0.0.1'
    })
    t.strictSame(errors, [message], 'a row of failures is told once')
    t.strictSame(problems(), [])
    t.equal(source.status().error, '')
  },
)

t.test('the last good addresses stand while resolving fails', async t => {
  const third = later()
  const answers: Record<string, Answer[]> = {
    db: [['10.0.0.1'], new TypeError('once'), new Error('twice'), third.answer],
  }
  const f = fixture(['tcp://127.0.0.1:1=db:1'], answers, 1000)
  await f.started
  await until('the pause', () => f.clock.waiting === 1)
  f.clock.advance(1000)
  await until('both failures', () => {
    f.clock.advance(4)
    return f.errors.length === 2
  })
  t.strictSame(f.addresses(), [['10.0.0.1']])
  const goodAt = (): number => f.source.status().lastGoodAt ?? 0
  const before = goodAt()
  await sleep(20)
  t.equal(goodAt(), before, 'since it fails its age grows')
  await until('the next pause', () => f.clock.waiting === 1)
  f.clock.advance(4)
  third.give({ addresses: ['10.0.0.2'], ttlMs: undefined })
  await until('the success', () => f.addresses()[0]?.[0] === '10.0.0.2')
  t.strictSame(f.errors, ['cannot resolve db: once', 'cannot resolve db: twice'])
  t.equal(f.source.status().error, '')
  const good = goodAt()
  await sleep(20)
  t.ok(goodAt() > good, 'what was resolved is good until it fails')
})

t.test('one host that does not answer does not take the others with it', async t => {
  const never = new Promise<Resolved>(() => {})
  const f = fixture(['tcp://127.0.0.1:1=mute:1,db:1'], {
    mute: [never],
    db: [['10.0.0.1']],
  })
  await until('both are waited for', () => f.clock.waiting === 3)
  await new Promise(setImmediate)
  t.equal(f.batches.length, 0, 'nothing is told before each had a second')
  f.clock.advance(1000)
  await f.started
  t.strictSame(f.addresses(), [[], ['10.0.0.1']])
  t.equal(f.source.status().error, 'cannot resolve mute: no answer yet')
  f.clock.advance(9000)
  await until('it has failed', () =>
    f.source.status().error.endsWith('mute: no answer within 10 s'),
  )
})

t.test('answers nobody can dial are left out, and none at all is a failure', async t => {
  const odd = ['10.0.0.1', '::ffff:10.0.0.1', 'fe80::1%eth0', '0.0.0.0', 'x']
  const f = fixture(['tcp://127.0.0.1:1=odd:1,none:1'], { odd: [odd], none: [['::']] })
  await f.started
  t.strictSame(f.addresses(), [['10.0.0.1'], []])
  t.match(
    f.source.status().error,
    'cannot resolve none: the answer has no usable address',
  )
})

t.test('a name that leads back to its own route is left out and told', async t => {
  const f = fixture(['tcp://127.0.0.1:1=localhost:1'], {
    localhost: [['127.0.0.1', '::1']],
  })
  await f.started
  t.strictSame(f.addresses(), [['::1']])
  t.match(f.problems(), [
    [/^route/, 'endpoint "localhost:1"', /^resolves to 127.0.0.1, the/],
  ])
})

t.test('reload resolves now', async t => {
  const f = fixture(['tcp://127.0.0.1:1=db:1'], { db: [['10.0.0.1'], ['10.0.0.2']] })
  await f.started
  await until('the pause', () => f.clock.waiting === 1)
  f.source.reload()
  await until('the change', () => f.addresses()[0]?.[0] === '10.0.0.2')
  t.equal(f.asked.length, 2)
})

t.test('close leaves no timer and says nothing more', async t => {
  const late = later()
  const f = fixture(['tcp://127.0.0.1:1=db:1,slow:1'], {
    db: [['10.0.0.1']],
    slow: [late.answer],
  })
  await until('both are on their way', () => f.clock.waiting === 3)
  await f.source.close()
  late.give({ addresses: ['10.0.0.2'], ttlMs: 1 })
  await f.started
  await new Promise(setImmediate)
  t.equal(f.clock.waiting, 0)
  t.strictSame([f.batches, f.errors, f.synced()], [[], [], 0])
})

t.test(
  'when all have failed a name is resolved again, at most once a second',
  async t => {
    const answers = { db: [['10.0.0.1']], other: [['10.0.0.2']] }
    const routes = ['tcp://127.0.0.1:1=db:1,10.0.0.9:1', 'tcp://127.0.0.1:2=other:1']
    const f = fixture(routes, answers, 60_000)
    await f.started
    await until('the pauses', () => f.clock.waiting === 2)
    f.clock.advance(5000)
    const before = f.asked.length
    f.source.allFailed('route/tcp-127-0-0-1-9')
    f.source.allFailed('route/tcp-127-0-0-1-1')
    f.source.allFailed('route/tcp-127-0-0-1-1')
    await until('it is asked at once', () => f.asked.length === before + 1)
    t.equal(f.asked.at(-1), 'db')
    await until('the next pause', () => f.clock.waiting === 2)
    for (let i = 0; i < 50; i += 1) f.source.allFailed('route/tcp-127-0-0-1-1')
    t.equal(f.clock.waiting, 3, 'one more timer')
    f.clock.advance(999)
    await new Promise(setImmediate)
    t.equal(f.asked.length, before + 1, 'not before a second has passed')
    f.clock.advance(1)
    await until('it is asked again', () => f.asked.length === before + 2)
    await until('the pause after it', () => f.clock.waiting === 2)
  },
)

t.test(
  'SRV records are slices by their ports, and a part that fails is told',
  async t => {
    const rows = [
      [10, 1, 5432, 'a'],
      [10, 1, 5433, 'a'],
      [20, 1, 5432, 'b'],
    ] as const
    const clock = new FakeClock()
    const text = 'tcp://127.0.0.1:5432=srv:_pg._tcp.example,10.0.0.9:1'
    const applied: (readonly Change[])[] = []
    let problems: readonly Problem[] = []
    const told: string[] = []
    const state: { rows: (typeof rows)[number][]; b: Error | string } = {
      rows: [...rows],
      b: '127.0.0.1',
    }
    const source = routeSource({
      routes: [parseRoute(text)],
      clock,
      times: quick,
      onError: ({ message }) => told.push(message),
      resolveSrv: async () => ({
        records: state.rows.map(([priority, weight, port, target]) => ({
          type: 'SRV',
          priority,
          weight,
          port,
          target,
        })),
        ttlMs: 1000,
      }),
      resolve: async host => {
        if (state.b instanceof Error && host === 'b') throw state.b
        return { addresses: host === 'a' ? ['10.0.0.1'] : [String(state.b)], ttlMs: 1000 }
      },
    })
    t.teardown(() => source.close())
    await source.start({
      apply: changes => applied.push(changes),
      synced: () => {},
      problems: now => (problems = now),
    })
    const slices = (changes: readonly Change[] = []) =>
      changes.flatMap(({ kind, name, ...rest }) => {
        if (kind !== 'EndpointSlice') return []
        const object = (rest as { object: EndpointSlice | undefined }).object
        return [[name, object?.ports[0]?.port, object?.endpoints.map(e => e.address)]]
      })
    t.strictSame(slices(applied[0]), [
      ['tcp-127-0-0-1-5432.0-5432', 5432, ['10.0.0.1']],
      ['tcp-127-0-0-1-5432.0-5433', 5433, ['10.0.0.1']],
      ['tcp-127-0-0-1-5432.1', 1, ['10.0.0.9']],
    ])
    const field = 'endpoint "srv:_pg._tcp.example"'
    t.match(problems, [{ field, message: /^resolves to 127.0.0.1, the route itself/ }])
    state.rows = [rows[0], rows[2]]
    state.b = new Error('SERVFAIL')
    clock.advance(1000)
    await until('the port goes', () => applied.length === 2)
    t.strictSame(slices(applied[1]), [
      ['tcp-127-0-0-1-5432.0-5433', undefined, undefined],
    ])
    const message = 'srv:_pg._tcp.example is resolved in part: b: SERVFAIL'
    t.match(problems, [{ field, message }, { field }])
    t.strictSame(told, [message])
    t.equal(source.status().error, message)
    state.b = '10.0.0.2'
    await until('all is well again', () => {
      clock.advance(1000)
      return source.status().error === ''
    })
    t.strictSame(slices(applied[2]), [
      ['tcp-127-0-0-1-5432.0-5432', 5432, ['10.0.0.1', '10.0.0.2']],
    ])
    t.match(applied[2], [{ object: { endpoints: [{ tier: undefined }, { tier: 1 }] } }])
    t.strictSame(problems, [])
  },
)

t.test('an address that has left is listed to be cut for 30 s', async t => {
  const answers = { db: [['10.0.0.1'], ['10.0.0.2']] }
  const f = fixture(['tcp://127.0.0.1:1=db:1?on-gone=reset'], answers, 20_000)
  await f.started
  await until('the pause', () => f.clock.waiting === 1)
  f.clock.advance(20_000)
  await until('the change', () => f.batches.length === 2)
  const gone = { address: '10.0.0.1', ready: false, serving: false, cut: 'down' }
  t.match(f.batches[1], [
    { object: { endpoints: [{ address: '10.0.0.2', ready: true, cut: undefined }] } },
    { name: 'tcp-127-0-0-1-1.gone-1', object: { endpoints: [gone] } },
  ])
  await until('two timers', () => f.clock.waiting === 2)
  f.clock.advance(20_000)
  await until('it is asked again', () => f.asked.length === 3 && f.clock.waiting === 2)
  f.clock.advance(9999)
  t.equal(f.batches.length, 2)
  f.clock.advance(1)
  t.match(f.batches[2], [{ name: 'tcp-127-0-0-1-1.gone-1', object: undefined }])
  t.equal(f.asked.length, 3, 'by its own timer')
})

t.test('slices of two routes never have one name', async t => {
  const srv = parseRoute('tcp://127.0.0.1:1=srv:_pg._tcp.example?name=db')
  const plain = parseRoute('tcp://127.0.0.1:2=10.0.0.1:1,10.0.0.2:1?name=db-0')
  const names = [srv, plain].flatMap(route =>
    routeObject(route, () => [placeAt('10.0.0.9', 1)]).changes.map(({ name }) => name),
  )
  t.equal(new Set(names).size, 5, names.join())
})

t.test('more addresses than a name may have are cut, and told', async t => {
  const many = Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`)
  const f = fixture(['tcp://127.0.0.1:1=db:1'], { db: [many] }, 60_000)
  await f.started
  t.equal(f.addresses()[0]?.length, 256)
  t.equal(
    f.source.status().error,
    'db is resolved in part: the answer has 1000 addresses, of which 256 are taken',
  )
})
