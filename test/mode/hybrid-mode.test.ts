import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { HybridMode, RelayedServices } from '../../src/mode/hybrid-mode.ts'
import { proxyAddressOf } from '../../src/kernel/proxy-address.ts'
import type { Mode, RelayMode } from '../../src/mode/mode.ts'
import { Deferred } from '../../src/util/deferred.ts'
import type { ServicePort, Snapshot } from '../../src/model/snapshot.ts'
import type { Placement } from '../../src/capture/capture.ts'
import { clusterIp, nodePort, servicePort } from '../support/service-ports.ts'

const snapshot = (...ports: ServicePort[]): Snapshot => ({
  family: 'IPv4',
  servicePorts: new Map(ports.map(each => [each.key, each])),
  healthChecks: new Map(),
})

const plain = servicePort('plain')
const db = servicePort('db', { relayed: true })
const unrelayed = servicePort('db')

/** As a relay listens for it: at a proxy port. */
const placed = (one: ServicePort): Placement => ({
  servicePort: one,
  listenerId: `${one.family} ${one.key}`,
  vips: one.vips.map(vip => {
    const bind = { address: proxyAddressOf[one.family], port: 40_000 }
    return { vip, capture: 'nftables', binds: [bind], reason: '' }
  }),
})

const namesOf = ({ key, steeredTo }: ServicePort): string =>
  `${key}${steeredTo === undefined ? '' : ' by the relay'}`

/** A mode over two that write down what they are asked, and fail when told to. */
const setUp = ({
  localhostNodePorts = false,
  started = Promise.resolve(),
  isHeir = false,
} = {}) => {
  const calls: string[] = []
  const broken = new Set<string>()
  const hanging = new Set<string>()
  const fail = (what: string): void => {
    if (broken.has(what)) throw new Error(`no ${what}`)
  }
  let placements: readonly Placement[] = []
  const fake = (name: string, mode: Mode['name']): RelayMode => ({
    name: mode,
    get placements() {
      return name === 'relay' ? placements : []
    },
    get led() {
      return placements
    },
    problems: [{ object: name, field: '', message: 'a problem' }],
    lend: async () => () => {},
    sync: async ([one]: readonly Snapshot[]) => {
      const all = [...(one?.servicePorts.values() ?? [])]
      calls.push(`${name}: ${all.map(namesOf).join(' ')}`)
      fail(name)
      if (hanging.has(name)) await new Promise(() => {})
      if (name === 'relay') placements = all.map(placed)
    },
    drain: async () => {
      calls.push(`${name} drains`)
      await setImmediate()
      calls.push(`${name} has drained`)
      return { reset: name === 'relay' ? 2 : 0 }
    },
    close: async () => void calls.push(`${name} closes`),
  })
  const mode = new HybridMode({
    kernel: fake('kernel', 'nftables'),
    localhostNodePorts,
    startRelay: async () => {
      calls.push('start')
      fail('start')
      await started
      return fake('relay', 'userspace')
    },
    isHeir: () => isHeir,
    sleep: async ms => {
      if (ms < 3000) calls.push('rests')
      // That an end waits for what it hands over, and for a relay that starts.
      else if (hanging.size === 0) await new Promise(() => {})
      else await setTimeout(10)
    },
    failed: error => calls.push(`failed: ${(error as Error).message}`),
  })
  const sync = async (...ports: ServicePort[]): Promise<readonly string[]> => {
    calls.length = 0
    await mode.sync([snapshot(...ports)]).catch((error: Error) => {
      calls.push(`rejects: ${error.message}`)
    })
    return [...calls]
  }
  return { mode, calls, broken, hanging, sync }
}

const [plainKey, dbKey] = [plain.key, db.key]
/** All by endpoints, and with one by the relay. */
const all = `kernel: ${plainKey} ${dbKey}`
const split = `kernel: ${dbKey} by the relay ${plainKey}`

t.test('without a Service that asks for it there is no relay', async t => {
  const { mode, sync, calls } = setUp()
  t.strictSame(await sync(plain, unrelayed), [`kernel: ${plainKey} ${dbKey}`])
  t.equal(mode.name, 'nftables')
  t.equal(mode.problems.length, 1)
  calls.length = 0
  t.strictSame(await mode.drain(1), { reset: 0 })
  await mode.close()
  t.strictSame(calls, ['kernel drains', 'kernel has drained', 'kernel closes'])
})

t.test('the kernel serves a Service until the relay does, and from then on', async t => {
  const { mode, sync, calls } = setUp()
  t.strictSame(
    await sync(plain, db),
    [all, 'start', `relay: ${dbKey}`, split],
    'the first one',
  )
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, split])
  t.strictSame(
    await sync(plain, unrelayed),
    [all, 'rests', 'relay: ', all],
    'the relay has it until the kernel does',
  )
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, split])
  t.strictSame(await sync(plain), ['relay: ', `kernel: ${plainKey}`], 'one that is gone')
  t.equal(mode.problems.length, 2)
  await sync(plain, db)
  calls.length = 0
  t.strictSame(await mode.drain(1), { reset: 2 })
  await mode.close()
  t.strictSame(calls, [
    all,
    'relay drains',
    'relay has drained',
    'relay closes',
    'kernel drains',
    'kernel has drained',
    'kernel closes',
  ])
})

t.test('a relay that is opened before is used by the first sync', async t => {
  const open = async (isHeir: boolean) => {
    const { mode, sync, calls } = setUp({ isHeir })
    await mode.openRelay([snapshot(plain, unrelayed)])
    t.strictSame(calls, [], 'nobody asks for it')
    await mode.openRelay([snapshot(plain, db)])
    t.strictSame(calls, ['start'])
    const first = await sync(plain, db)
    t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, split])
    return first
  }
  t.strictSame(await open(false), [all, `relay: ${dbKey}`, split])
  t.strictSame(await open(true), [`relay: ${dbKey}`, split], 'clients are led there')
})

t.test('what is lent twice is lent at once, and nothing changes meanwhile', async t => {
  const { mode, sync, calls } = setUp()
  await sync(plain, db)
  const takeBack = await mode.lend()
  const waiting = sync(plain, unrelayed)
  await setImmediate()
  t.strictSame(calls, [])
  await mode.lend()
  t.strictSame(calls, [])
  takeBack()
  t.strictSame(await waiting, [all, 'rests', 'relay: ', all])
  const ended = sync(plain, db)
  await mode.lend()
  await ended
  calls.length = 0
  await mode.drain(1)
  t.notOk(calls.includes(all), 'what another one has is not led elsewhere')
})

t.test('an heir that fails leads nobody away', async t => {
  const { mode, sync, broken } = setUp({ isHeir: true })
  await mode.openRelay([snapshot(plain, db)])
  broken.add('relay')
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, 'rejects: no relay'])
})

t.test('a relay that is opened before and does not start is tried again', async t => {
  const { mode, sync, broken } = setUp()
  broken.add('start')
  await t.rejects(mode.openRelay([snapshot(db)]), /no start/)
  broken.clear()
  t.strictSame(await sync(plain, db), [all, 'start', `relay: ${dbKey}`, split])
})

t.test('an end without a drain hands over as well', async t => {
  const { mode, sync, calls } = setUp()
  await sync(plain, db)
  calls.length = 0
  await mode.close()
  t.strictSame(calls, [all, 'relay closes', 'kernel closes'])
})

t.test('one comes while another leaves', async t => {
  const { sync } = setUp()
  const relayed = servicePort('plain', { relayed: true })
  await sync(plain, db)
  t.strictSame(await sync(relayed, unrelayed), [
    all,
    'rests',
    `relay: ${plainKey}`,
    `kernel: ${dbKey} ${plainKey} by the relay`,
  ])
  const third = servicePort('third', { relayed: true })
  await sync(plain, db, third)
  t.strictSame(
    (await sync(plain, { ...db, affinityMs: 1 }, servicePort('third'))).slice(0, 2),
    [`${split} ${servicePort('third').key}`, 'rests'],
    'others stay with the relay meanwhile',
  )
})

/** The next process may begin when the kernel mode has drained: it has a guard of the same name. */
const drained = [
  'relay drains',
  'relay has drained',
  'relay closes',
  'kernel drains',
  'kernel has drained',
]

t.test('the relay keeps what leaves it until the kernel has it', async t => {
  const { sync, broken } = setUp()
  await sync(plain, db)
  broken.add('kernel')
  const third = servicePort('third', { relayed: true })
  t.strictSame(
    await sync(plain, db, third),
    [
      `relay: ${dbKey} ${third.key}`,
      `${split} ${third.key} by the relay`,
      'rejects: no kernel',
    ],
    'it goes on with what it had',
  )
  const [left] = await sync(plain, db, servicePort('third'))
  t.equal(left, `${split} ${third.key}`, 'one family may have led there')
  const kept = [all, 'rejects: no kernel']
  t.strictSame(await sync(plain, unrelayed), kept)
  t.strictSame(await sync(plain, unrelayed), kept, 'however often that fails')
  broken.clear()
  t.strictSame(await sync(plain, unrelayed), [all, 'rests', 'relay: ', all])
  t.strictSame(await sync(plain, unrelayed), ['relay: ', all])
})

t.test('where the relay fails the kernel serves all of them', async t => {
  const { mode, sync, calls, broken } = setUp()
  broken.add('start')
  t.strictSame(await sync(plain, db), [all, 'start', 'rejects: no start'])
  broken.clear()
  t.strictSame((await sync(plain, db)).slice(-1), [split])
  broken.add('relay')
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, all, 'rejects: no relay'])
  t.strictSame(
    await sync(plain, unrelayed),
    ['relay: ', all, 'rejects: no relay'],
    'nobody is led to what may not listen',
  )
  broken.add('kernel')
  await sync(plain, db)
  calls.length = 0
  await mode.drain(1)
  t.strictSame(calls, [all, 'failed: no kernel', ...drained])
})

t.test('an end waits for a relay that starts, which ends at once', async t => {
  const { promise: started, resolve } = new Deferred<void>()
  const { mode, sync, calls } = setUp({ started })
  const synced = sync(plain, db)
  await setImmediate()
  const ended = mode.drain(1)
  await setTimeout(10)
  t.strictSame(calls, [all, 'start'], 'it is this process’s turn yet')
  resolve()
  await ended
  await synced
  t.strictSame(calls, [
    all,
    'start',
    'relay closes',
    'rejects: the mode has ended',
    'kernel drains',
    'kernel has drained',
  ])
})

t.test('an end waits for what it hands over, and not for ever', async t => {
  const { mode, sync, calls, hanging } = setUp()
  await sync(plain, db)
  hanging.add('kernel')
  calls.length = 0
  t.strictSame(await mode.drain(1), { reset: 2 })
  t.strictSame(calls, [all, ...drained])
})

t.test(
  'node ports on loopback are the relay’s, those of its own Services too',
  async t => {
    const vips = [clusterIp('10.0.0.1'), nodePort('0.0.0.0', 30_080)]
    const both = snapshot({ ...plain, vips }, { ...db, vips })
    const services = new RelayedServices(true)
    const relayed = [...services.of(both).servicePorts.values()]
    t.strictSame(
      relayed.map(one => [one.key, one.vips]),
      [
        [dbKey, vips],
        [`${dbKey} on loopback`, [nodePort('127.0.0.1', 30_080)]],
        [`${plainKey} on loopback`, [nodePort('127.0.0.1', 30_080)]],
      ],
    )
    const again = [...services.of(both).servicePorts.values()]
    t.ok(
      again.every((one, i) => one === relayed[i]),
      'the same objects',
    )
    const ipv6 = {
      ...snapshot({ ...plain, family: 'IPv6' as const, vips }),
      family: 'IPv6' as const,
    }
    const [only] = services.of(ipv6).servicePorts.values()
    t.equal(only?.vips[0]?.address, '::1')
  },
)

t.test('on loopback the relay is the endpoint beside the kernel’s others', async t => {
  const { sync } = setUp({ localhostNodePorts: true })
  const web = { ...plain, vips: [nodePort('0.0.0.0', 30_080)] }
  t.strictSame((await sync(web)).slice(-2), [
    `relay: ${plainKey} on loopback`,
    `kernel: ${plainKey} ${plainKey} on loopback by the relay`,
  ])
  t.strictSame(await sync(plain), ['relay: ', `kernel: ${plainKey}`], 'and goes with it')
})
