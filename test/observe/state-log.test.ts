import t from 'tap'
import type { Placement, VipPlacement } from '../../src/capture/capture.ts'
import { ChangeLog, PlacementLog, ProblemLog } from '../../src/observe/state-log.ts'
import { ConnectionLog } from '../../src/observe/connection-log.ts'
import { createLog, type LogLevel } from '../../src/observe/log.ts'
import type { BindState } from '../../src/relay/relay.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { clusterIp, servicePort } from '../support/service-ports.ts'

const setUp = async (level: LogLevel) => {
  const records: Record<string, unknown>[] = []
  const stream = { write: (line: string) => void records.push(JSON.parse(line)) }
  const log = await createLog({ level, format: 'json', stream })
  const clock = new FakeClock()
  const messages = () =>
    records.map(({ level: word, msg }) => `${String(word)}: ${String(msg)}`)
  return { log, clock, records, messages }
}

const bindLog = async (level: LogLevel) => {
  const { log, clock, records, messages } = await setUp(level)
  return {
    observer: new ConnectionLog({ log, clock }),
    clock,
    records: () => records,
    messages,
  }
}

const bind = { address: '127.96.0.1', port: 53 }
const failed: BindState = { bind, state: 'failed', error: 'EADDRINUSE', since: 0 }

t.test('a bind that goes on failing is an error at most once a minute', async t => {
  const { observer, clock, records } = await bindLog('info')
  observer.bindChanged('default/dns', failed)
  for (let i = 0; i < 59; i += 1) {
    clock.advance(1000)
    observer.bindChanged('default/dns', failed)
  }
  t.equal(records().length, 1)
  t.match(records()[0], {
    level: 'error',
    address: '127.96.0.1:53',
    error: 'EADDRINUSE',
    since: '1970-01-01T00:00:00.000Z',
  })
  clock.advance(1000)
  observer.bindChanged('default/dns', failed)
  t.equal(records().length, 2)
})

t.test('another bind, and one that worked in between, is news', async t => {
  const { observer, records } = await bindLog('info')
  observer.bindChanged('default/dns', failed)
  observer.bindChanged('default/dns', { ...failed, bind: { ...bind, port: 54 } })
  observer.bindChanged('default/dns', { bind, state: 'binding' })
  observer.bindChanged('default/dns', { bind, state: 'listening' })
  observer.bindChanged('default/dns', failed)
  observer.bindChanged('default/dns', { bind, state: 'closed', reason: 'no endpoints' })
  t.same(
    records().map(({ level }) => level),
    ['error', 'error', 'info', 'error', 'info'],
  )
})

const burst = 50

t.test('a start with many Services is some lines and a count', async t => {
  const { observer, clock, records } = await bindLog('info')
  for (let port = 1; port <= 1000; port += 1)
    observer.bindChanged('default/web', { bind: { ...bind, port }, state: 'listening' })
  t.equal(records().length, burst)
  clock.advance(5000)
  t.equal(records().length, burst + 1)
  t.match(records().at(-1), {
    level: 'info',
    count: 950,
    msg: 'listening: 950 more addresses',
  })
  t.equal(clock.waiting, 1, 'until the bucket is full again')
})

t.test('with debug on each address is there', async t => {
  const { observer, records } = await bindLog('debug')
  for (let port = 1; port <= 1000; port += 1)
    observer.bindChanged('default/web', { bind: { ...bind, port }, state: 'listening' })
  t.equal(records().length, 1000)
})

t.test('many ports in use are some errors and a count, and closing says it', async t => {
  const { observer, clock, records } = await bindLog('info')
  for (let port = 1; port <= 1000; port += 1)
    observer.bindChanged('default/web', { ...failed, bind: { ...bind, port } })
  t.equal(records().length, burst)
  observer.close()
  t.match(records().at(-1), { level: 'error', count: 950 })
  t.equal(clock.waiting, 0)
})

t.test('failures are not held back for what listens', async t => {
  const { observer, records } = await bindLog('info')
  for (let port = 1; port <= 1000; port += 1)
    observer.bindChanged('default/web', { bind: { ...bind, port }, state: 'listening' })
  observer.bindChanged('default/web', failed)
  t.match(records().at(-1), { level: 'error', address: '127.96.0.1:53' })
})

const vip = clusterIp('127.96.0.1')
const ownAddress: VipPlacement = {
  vip,
  capture: 'local',
  binds: [{ address: vip.address, port: vip.port }],
  reason: '',
}
const proxyPort: VipPlacement = {
  vip,
  capture: 'none',
  binds: [{ address: '127.0.0.1', port: 41000 }],
  reason: 'not an address of this host',
}
const nowhere: VipPlacement = {
  vip,
  capture: 'not captured',
  binds: [],
  reason: 'no port of 1-2 is free',
}

const placed = (name: string, ...vips: readonly VipPlacement[]): Placement => ({
  servicePort: servicePort(name),
  listenerId: name,
  vips,
})

t.test('placements', async t => {
  t.test('are told once, and again when they change', async t => {
    const { log, messages } = await setUp('info')
    const placements = new PlacementLog(log)
    for (const [placement] of [
      [ownAddress],
      [ownAddress],
      [{ ...ownAddress, vip: { ...vip, kind: 'Route' }, capture: 'listen' }],
      [proxyPort],
      [nowhere],
    ] as const)
      placements.report([placed('web', placement)])
    t.strictSame(messages(), [
      'info: VIP is served at its own address',
      'info: route is served at its own address',
      'info: VIP is placed on proxy port 127.0.0.1:41000',
      'warn: VIP not captured: no port of 1-2 is free',
    ])
  })

  t.test(
    'with rules are not said to be led anywhere: clients may be refused',
    async t => {
      const { log, messages } = await setUp('info')
      const placements = new PlacementLog(log)
      placements.report([placed('web', { ...proxyPort, capture: 'nftables' })])
      placements.report([placed('web', { ...proxyPort, capture: 'kernel', binds: [] })])
      t.strictSame(messages(), [
        'info: VIP is captured by nftables, proxy port 127.0.0.1:41000',
        'info: VIP is handled by the kernel',
      ])
    },
  )

  t.test('that cannot be listened on are told when they can', async t => {
    const { log, messages } = await setUp('info')
    let failing = true
    const placements = new PlacementLog(
      log,
      (name, { port }) => failing && name === 'default/web' && port === 41000,
    )
    placements.report([placed('web', proxyPort), placed('other', ownAddress)])
    t.strictSame(messages(), ['info: VIP is served at its own address'])
    failing = false
    placements.report([placed('web', proxyPort), placed('other', ownAddress)])
    t.match(messages()[1], 'proxy port 127.0.0.1:41000')
    t.equal(messages().length, 2)
  })

  const many = (length: number, placement: VipPlacement, name: string) =>
    Array.from({ length }, (_, i) => placed(`${name}-${i}`, placement))

  t.test('of many at once are counted, and told at debug', async t => {
    const { log, records, messages } = await setUp('debug')
    const placements = new PlacementLog(log)
    const all = [...many(40, proxyPort, 'web'), ...many(30, nowhere, 'lost')]
    placements.report(all)
    t.equal(messages().filter(line => line.startsWith('debug: VIP')).length, 70)
    t.match(records.at(-2), {
      level: 'info',
      onVip: 0,
      onProxyPort: 40,
      notCaptured: 30,
      msg: 'many VIPs were set up at once',
    })
    const { examples, ...rest } = records.at(-1) ?? {}
    t.match(rest, { level: 'warn', notCaptured: 30 })
    t.equal((examples as unknown[]).length, 3)
    t.match(examples, [[{ servicePort: 'default/lost-0' }, /^VIP not captured/]])
    placements.report(all)
    t.equal(records.length, 72, 'and not again')
  })

  t.test('of 50 at once are told each', async t => {
    const { log, messages } = await setUp('info')
    new PlacementLog(log).report(many(50, ownAddress, 'web'))
    t.equal(messages().length, 50)
  })
})

t.test('problems', async t => {
  const problems = (length: number) =>
    Array.from({ length }, (_, i) => ({
      object: `Service default/s${i}`,
      field: 'spec.ports',
      message: 'is odd',
    }))

  t.test('are told once each, and when all are gone', async t => {
    const { log, messages } = await setUp('info')
    const problemLog = new ProblemLog(log)
    problemLog.report(problems(1))
    problemLog.report(problems(2))
    problemLog.report([])
    problemLog.report([])
    t.strictSame(messages(), [
      'warn: is odd',
      'warn: is odd',
      'info: all problems are resolved',
    ])
  })

  t.test('beyond 50 at once are counted', async t => {
    const { log, records } = await setUp('info')
    new ProblemLog(log).report(problems(1000))
    t.equal(records.length, 51)
    t.match(records.at(-1), { level: 'warn', count: 950 })
  })
})

t.test('changes of the source', async t => {
  const changeLog = async (level: LogLevel) => {
    const all = await setUp(level)
    return { ...all, changes: new ChangeLog(all.log, all.clock) }
  }

  t.test('are told at once, and then as one line in 10 s', async t => {
    const { changes, clock, records } = await changeLog('info')
    changes.taken({ services: 1, endpoints: 2 })
    t.match(records, [{ level: 'info', serviceChanges: 1, endpointChanges: 2, syncs: 1 }])
    for (let i = 0; i < 100; i += 1) changes.taken({ services: 0, endpoints: 3 })
    clock.advance(9999)
    t.equal(records.length, 1)
    clock.advance(1)
    t.match(records[1], { serviceChanges: 0, endpointChanges: 300, syncs: 100 })
    changes.taken({ services: 5, endpoints: 0 })
    t.equal(records.length, 2, 'the next 10 s run')
    clock.advance(10_000)
    t.match(records[2], { serviceChanges: 5, endpointChanges: 0, syncs: 1 })
    clock.advance(10_000)
    t.equal(clock.waiting, 0)
    changes.taken({ services: 1, endpoints: 0 })
    t.equal(records.length, 4)
  })

  t.test('that are none are not told', async t => {
    const { changes, clock, records } = await changeLog('debug')
    changes.taken({ services: 0, endpoints: 0 })
    t.equal(records.length, 0)
    t.equal(clock.waiting, 0)
  })

  t.test('are told at the end, and each at debug', async t => {
    const { changes, clock, messages } = await changeLog('debug')
    changes.taken({ services: 1, endpoints: 0 })
    changes.taken({ services: 2, endpoints: 0 })
    changes.close()
    t.strictSame(messages(), [
      'debug: one sync applied changes',
      'info: configuration synced',
      'debug: one sync applied changes',
      'info: configuration synced',
    ])
    t.equal(clock.waiting, 0)
  })
})
