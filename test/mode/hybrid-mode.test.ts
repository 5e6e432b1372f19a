import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import {
  HybridMode,
  type RelayMode,
  ServiceSplitter,
} from '../../src/mode/hybrid-mode.ts'
import type { Mode } from '../../src/mode/mode.ts'
import type { ServicePort, Snapshot } from '../../src/model/snapshot.ts'
import { clusterIp, nodePort, servicePort } from '../support/service-ports.ts'

const snapshot = (...ports: ServicePort[]): Snapshot => ({
  family: 'IPv4',
  servicePorts: new Map(ports.map(each => [each.key, each])),
  healthChecks: new Map(),
})

const plain = servicePort('plain')
const db = servicePort('db', { relayed: true })
const unrelayed = servicePort('db')

/** A mode over two that write down what they are asked, and fail when told to. */
const setUp = ({ localhostNodePorts = false } = {}) => {
  const calls: string[] = []
  const broken = new Set<string>()
  const hanging = new Set<string>()
  const fail = (what: string): void => {
    if (broken.has(what)) throw new Error(`no ${what}`)
  }
  const keysOf = (one: Snapshot | undefined): string =>
    [...(one?.servicePorts.keys() ?? [])].join(' ')
  const fake = (name: string, mode: Mode['name']): RelayMode => ({
    name: mode,
    placements: [],
    problems: [{ object: name, field: '', message: 'a problem' }],
    sync: async ([one]: readonly Snapshot[], led?: readonly Snapshot[]) => {
      const isLed = led === undefined ? '' : `, led: ${keysOf(led[0])}`
      calls.push(`${name}: ${keysOf(one)}${isLed}`)
      fail(name)
      if (hanging.has(name)) await new Promise(() => {})
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
    splitter: new ServiceSplitter(localhostNodePorts),
    startRelay: async () => {
      calls.push('start')
      fail('start')
      return fake('relay', 'userspace')
    },
    sleep: async ms => {
      if (ms < 3000) calls.push('rests')
      // That an end waits for what it hands over.
      else if (hanging.size === 0) await new Promise(() => {})
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
    [`kernel: ${plainKey} ${dbKey}`, 'start', `relay: ${dbKey}`, `kernel: ${plainKey}`],
    'the first one',
  )
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, `kernel: ${plainKey}`])
  t.strictSame(
    await sync(plain, unrelayed),
    [
      `relay: ${dbKey}`,
      `kernel: ${plainKey} ${dbKey}`,
      `relay: ${dbKey}, led: `,
      'rests',
      'relay: ',
    ],
    'the relay has it until the kernel does',
  )
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, `kernel: ${plainKey}`])
  t.strictSame(await sync(plain), ['relay: ', `kernel: ${plainKey}`], 'one that is gone')
  t.equal(mode.problems.length, 2)
  await sync(plain, db)
  calls.length = 0
  t.strictSame(await mode.drain(1), { reset: 2 })
  await mode.close()
  t.strictSame(calls, [
    `kernel: ${plainKey} ${dbKey}`,
    `relay: ${dbKey}, led: `,
    'relay drains',
    'relay has drained',
    'kernel drains',
    'kernel has drained',
    'relay closes',
    'kernel closes',
  ])
})

/** The next process may begin when the kernel mode has drained. */
const drained = [
  'relay drains',
  'relay has drained',
  'kernel drains',
  'kernel has drained',
]

t.test('the relay keeps what leaves it until the kernel has it', async t => {
  const { sync, broken } = setUp()
  await sync(plain, db)
  const all = `kernel: ${plainKey} ${dbKey}`
  broken.add('kernel')
  const kept = [`relay: ${dbKey}`, all, 'rejects: no kernel']
  t.strictSame(await sync(plain, unrelayed), kept)
  t.strictSame(await sync(plain, unrelayed), kept, 'however often that fails')
  broken.clear()
  const left = [`relay: ${dbKey}`, all, `relay: ${dbKey}, led: `, 'rests', 'relay: ']
  t.strictSame(await sync(plain, unrelayed), left)
  t.strictSame(await sync(plain, unrelayed), ['relay: ', all])
})

t.test('where the relay fails the kernel serves all of them', async t => {
  const { mode, sync, calls, broken } = setUp()
  broken.add('start')
  const all = `kernel: ${plainKey} ${dbKey}`
  t.strictSame(await sync(plain, db), [all, 'start', 'rejects: no start'])
  broken.clear()
  t.strictSame((await sync(plain, db)).slice(-1), [`kernel: ${plainKey}`])
  broken.add('relay')
  t.strictSame(await sync(plain, db), [`relay: ${dbKey}`, all, 'rejects: no relay'])
  broken.add('kernel')
  calls.length = 0
  await mode.drain(1)
  t.strictSame(calls, [all, 'failed: no kernel', ...drained])
})

t.test('an end waits for what it hands over, and not for ever', async t => {
  const { mode, sync, calls, hanging } = setUp()
  await sync(plain, db)
  hanging.add('kernel')
  calls.length = 0
  t.strictSame(await mode.drain(1), { reset: 2 })
  t.strictSame(calls, [`kernel: ${plainKey} ${dbKey}`, ...drained])
})

t.test(
  'node ports on loopback are the relay’s, those of its own Services too',
  async t => {
    const vips = [clusterIp('10.0.0.1'), nodePort('0.0.0.0', 30_080)]
    const both = snapshot({ ...plain, vips }, { ...db, vips })
    const splitter = new ServiceSplitter(true)
    const { kernel, relay } = splitter.split([both])
    t.strictSame([...(kernel[0]?.servicePorts.keys() ?? [])], [plainKey])
    const relayed = [...(relay[0]?.servicePorts.values() ?? [])]
    t.strictSame(
      relayed.map(one => [one.key, one.vips]),
      [
        [dbKey, vips],
        [`${dbKey} on loopback`, [nodePort('127.0.0.1', 30_080)]],
        [`${plainKey} on loopback`, [nodePort('127.0.0.1', 30_080)]],
      ],
    )
    const again = [...(splitter.split([both]).relay[0]?.servicePorts.values() ?? [])]
    t.ok(
      again.every((one, i) => one === relayed[i]),
      'the same objects',
    )
    const ipv6 = {
      ...snapshot({ ...plain, family: 'IPv6' as const, vips }),
      family: 'IPv6' as const,
    }
    const [only] = splitter.split([ipv6]).relay[0]?.servicePorts.values() ?? []
    t.equal(only?.vips[0]?.address, '::1')
  },
)

t.test('what nobody asks to divide stays one', async t => {
  const all = snapshot(plain)
  t.equal(new ServiceSplitter(false).split([all]).kernel[0], all)
})
