import t, { type Test } from 'tap'
import type { FamilyProbes } from '../../src/kernel/probe.ts'
import type { ModeStep, WantedMode } from '../../src/mode/fallback-mode.ts'
import { FallbackMode } from '../../src/mode/fallback-mode.ts'
import type { Mode, ModeName } from '../../src/mode/mode.ts'
import { Reconciler } from '../../src/mode/reconciler.ts'
import { Registry } from '../../src/model/registry.ts'
import type { Snapshot } from '../../src/model/snapshot.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { put, service } from '../support/objects.ts'
import { servicePort } from '../support/service-ports.ts'
import { until } from '../support/until.ts'

const usable: FamilyProbes = {
  IPv4: { usable: true, detail: 'there' },
  IPv6: { usable: true, detail: 'there' },
}

const missing = (detail: string): FamilyProbes => ({
  IPv4: { usable: false, detail },
  IPv6: { usable: false, detail },
})

/** Modes that write down what they are asked, and break when told to. */
class Modes {
  readonly calls: string[] = []
  readonly probes: Record<ModeName, FamilyProbes> = {
    nftables: usable,
    ipvs: usable,
    iptables: usable,
    userspace: usable,
  }
  readonly broken = new Set<ModeName>()
  readonly unstartable = new Set<ModeName>()
  /** What the end of a mode waits for. */
  gate: Promise<void> = Promise.resolve()

  readonly steps: readonly ModeStep[] = (
    ['userspace', 'iptables', 'ipvs', 'nftables'] as const
  ).map(name => ({
    name,
    probe: async () => {
      this.calls.push(`probe ${name}`)
      return this.probes[name]
    },
    start: async () => {
      if (this.unstartable.has(name)) throw new Error(`no start of ${name}`)
      this.calls.push(`start ${name}`)
      return this.#mode(name)
    },
  }))

  #mode(name: ModeName): Mode {
    return {
      name,
      placements: [],
      problems: [],
      lend: async () => () => {},
      sync: async () => {
        this.calls.push(`sync ${name}`)
        if (this.broken.has(name)) throw new Error(`${name} fails`)
      },
      drain: async () => ({ reset: 0 }),
      close: async () => {
        this.calls.push(`close ${name}`)
        await this.gate
      },
    }
  }
}

const start = async (mode: WantedMode, modes = new Modes()) => {
  const told: string[] = []
  const running = await FallbackMode.start({
    request: { mode, by: mode === '' ? '' : '--proxy-mode' },
    steps: modes.steps,
    fellBack: ({ from, to, reason }) => told.push(`${from} -> ${to}: ${reason}`),
    failed: () => told.push('failed'),
  })
  return { running, modes, told }
}

t.test('the mode that runs is the first of its chain that works', async t => {
  const table: readonly (readonly [WantedMode, readonly ModeName[], ModeName, string])[] =
    [
      // what is asked for, what does not work, what runs, what was passed over
      ['', [], 'iptables', ''],
      ['', ['iptables'], 'userspace', 'iptables'],
      ['', ['iptables', 'ipvs'], 'userspace', 'iptables'],
      ['userspace', [], 'userspace', ''],
      ['iptables', [], 'iptables', ''],
      ['iptables', ['iptables'], 'userspace', 'iptables'],
      ['ipvs', [], 'ipvs', ''],
      ['ipvs', ['ipvs'], 'iptables', 'ipvs'],
      ['ipvs', ['ipvs', 'iptables'], 'userspace', 'ipvs iptables'],
      ['nftables', [], 'nftables', ''],
      ['nftables', ['nftables'], 'iptables', 'nftables'],
      ['nftables', ['nftables', 'iptables'], 'userspace', 'nftables iptables'],
    ]
  for (const [wanted, lacking, runs, passedOver] of table) {
    const modes = new Modes()
    for (const name of lacking) modes.probes[name] = missing(`no ${name}`)
    const { running } = await start(wanted, modes)
    const { choice } = running
    const title = `${wanted || 'empty'} without ${lacking.join() || 'lack'}`
    t.equal(running.name, runs, title)
    t.equal(choice.passedOver.map(({ name }) => name).join(' '), passedOver, title)
    t.equal(modes.calls.filter(call => call.startsWith('start')).length, 1, title)
  }
})

t.test('a mode that one family can have is worth having', async t => {
  const modes = new Modes()
  modes.probes.iptables = { ...usable, IPv6: { usable: false, detail: 'no IPv6' } }
  const { running } = await start('iptables', modes)
  t.match(running.choice, { name: 'iptables', detail: /there; not for IPv6: no IPv6/ })
})

t.test('what is not needed is not tried', async t => {
  const { modes } = await start('')
  t.strictSame(modes.calls, ['probe iptables', 'start iptables'])
})

const withService: Snapshot = {
  family: 'IPv4',
  servicePorts: new Map([['web', servicePort('web')]]),
  healthChecks: new Map(),
}

/** The mode under a real reconciler with one Service. */
const reconciled = async (t: Test, mode: WantedMode) => {
  const found = await start(mode)
  const clock = new FakeClock()
  const reconciler = new Reconciler({
    clock,
    registry: new Registry(),
    sync: snapshots => found.running.sync(snapshots),
    observers: [],
    failed: () => {},
    problems: () => {},
    taken: () => {},
    mostWaitMs: 0,
    maxMs: 30_000,
  })
  t.teardown(() => reconciler.close())
  reconciler.apply([put(service())])
  reconciler.synced()
  const settled = async (last: string): Promise<void> =>
    until(last, () => {
      clock.advance(500)
      return found.modes.calls.at(-1) === last
    })
  await settled(`sync ${found.running.name}`)
  found.modes.calls.length = 0
  return { ...found, reconciler, clock, settled }
}

t.test('a mode that breaks for good gives way to the next, in the same sync', async t => {
  const { running, modes, told, reconciler, settled } = await reconciled(t, 'ipvs')
  modes.broken.add('ipvs')
  modes.probes.ipvs = missing('kernel module ip_vs is gone')
  modes.probes.iptables = missing('no iptables')
  reconciler.resync()
  await settled('sync userspace')
  t.strictSame(modes.calls, [
    'sync ipvs',
    'sync ipvs',
    'sync ipvs',
    'probe ipvs',
    'probe iptables',
    'probe userspace',
    'start userspace',
    'close ipvs',
    'sync userspace',
  ])
  t.strictSame(told, ['ipvs -> userspace: kernel module ip_vs is gone'])
  t.match(running.choice, {
    mode: 'ipvs',
    name: 'userspace',
    passedOver: [
      { name: 'ipvs', detail: 'kernel module ip_vs is gone' },
      { name: 'iptables', detail: 'no iptables' },
    ],
  })

  await t.test('and does not come back', async t => {
    modes.broken.clear()
    modes.probes.ipvs = usable
    modes.calls.length = 0
    reconciler.resync()
    await settled('sync userspace')
    t.notOk(modes.calls.some(call => !call.startsWith('sync userspace')))
  })
})

t.test('a mode whose syncs fail stays as long as its probe is good', async t => {
  const { running, modes, told, reconciler, clock } = await reconciled(t, 'iptables')
  modes.broken.add('iptables')
  reconciler.resync()
  await until('it was probed again and again', () => {
    clock.advance(30_000)
    return modes.calls.filter(call => call === 'probe iptables').length > 2
  })
  t.strictSame([running.name, told], ['iptables', []])
})

t.test('a family without Services is not missed', async t => {
  const { running, modes, told, reconciler, clock } = await reconciled(t, 'iptables')
  modes.broken.add('iptables')
  modes.probes.iptables = { ...usable, IPv6: { usable: false, detail: 'gone' } }
  reconciler.resync()
  await until('it was probed again and again', () => {
    clock.advance(30_000)
    return modes.calls.filter(call => call === 'probe iptables').length > 2
  })
  t.strictSame([running.name, told], ['iptables', []])
})

t.test('while the next mode can’t be started the old one is not ended', async t => {
  const { running, modes, told, reconciler, clock, settled } = await reconciled(
    t,
    'iptables',
  )
  modes.broken.add('iptables')
  modes.probes.iptables = missing('gone')
  modes.unstartable.add('userspace')
  reconciler.resync()
  await until('it was tried', () => {
    clock.advance(30_000)
    return modes.calls.filter(call => call === 'probe userspace').length > 1
  })
  t.equal(running.name, 'iptables')
  t.notOk(modes.calls.includes('close iptables'))
  modes.unstartable.clear()
  await settled('sync userspace')
  t.strictSame(told, ['iptables -> userspace: gone'])
})

t.test('two failures in a row are no reason to ask', async t => {
  const { running, modes } = await start('iptables')
  for (let round = 0; round < 3; round += 1) {
    modes.broken.add('iptables')
    await t.rejects(running.sync([]))
    await t.rejects(running.sync([]))
    modes.broken.clear()
    await running.sync([])
  }
  t.equal(modes.calls.filter(call => call.startsWith('probe')).length, 1)
})

t.test('whoever ends it during a change of modes ends the next one, too', async t => {
  const { running, modes, told } = await start('iptables')
  modes.broken.add('iptables')
  modes.probes.iptables = missing('gone')
  await t.rejects(running.sync([withService]))
  await t.rejects(running.sync([withService]))
  let open = () => {}
  modes.gate = new Promise(resolve => (open = resolve))
  const changing = t.rejects(running.sync([withService]), /has ended/)
  await until('the old one is being ended', () => modes.calls.includes('close iptables'))
  const drained = running.drain(0)
  open()
  await Promise.all([changing, drained])
  t.equal(modes.calls.at(-1), 'close userspace')
  t.notOk(modes.calls.includes('sync userspace'), 'and nothing is led by it')
  t.strictSame([running.name, told], ['iptables', []])
})
