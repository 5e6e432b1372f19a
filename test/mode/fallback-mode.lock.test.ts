import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { type Capture, ExclusiveCapture } from '../../src/capture/capture.ts'
import { SocketLock } from '../../src/kernel/keeper/host-lock.ts'
import { StoppableTools } from '../../src/kernel/run-tool.ts'
import { plainSettings } from '../../src/kernel/proxier.ts'
import { type ModeStep, FallbackMode } from '../../src/mode/fallback-mode.ts'
import { KernelMode } from '../../src/mode/kernel-mode.ts'
import type { Snapshot } from '../../src/model/snapshot.ts'
import { systemClock } from '../../src/util/clock.ts'
import { FakeProxier } from '../support/fake-proxier.ts'
import { servicePort } from '../support/service-ports.ts'
import { until } from '../support/until.ts'

const linuxOnly = { skip: process.platform !== 'linux' }

const snapshots: readonly Snapshot[] = [
  {
    family: 'IPv4',
    servicePorts: new Map([['web', servicePort('web')]]),
    healthChecks: new Map(),
  },
]

/** Two Ushers of one host: the first has lost its iptables, the second waits for its end. */
const twoUshers = async (t: Test) => {
  const name = `usher-test-${randomBytes(6).toString('hex')}`
  const told: string[] = []
  const lock = (self: string) =>
    new SocketLock({
      clock: systemClock,
      self,
      name,
      waiting: () => told.push(`${self} waits`),
    })
  const kernelMode = (self: string, proxier: FakeProxier) =>
    new KernelMode({
      name: 'iptables',
      clock: systemClock,
      proxiers: new Map([['IPv4', proxier]]),
      unusable: new Map(),
      lock: lock(self),
      tools: new StoppableTools(),
      settings: () => ({ ...plainSettings, localhostNodePorts: true }),
      prepare: async () => {},
      refused: () => [],
      removeOthers: async () => [],
      probe: async () => ({ usable: true, detail: '' }),
      guard: async () => {},
      conntrack: { forgetFlows: async () => 0, problem: '' },
      left: async () => [],
      resync: () => {},
      observers: [
        {
          synced: () => told.push(`${self} leads`),
          repaired: () => {},
        },
      ],
    })
  const broken = new FakeProxier()
  let isThere = true
  const kernelStep: ModeStep = {
    name: 'iptables',
    probe: async () => ({
      IPv4: { usable: isThere, detail: 'gone' },
      IPv6: { usable: isThere, detail: 'gone' },
    }),
    start: async () => kernelMode('first', broken),
  }
  let beforeUserspace: () => Promise<void> = async () => {}
  const userspaceStep: ModeStep = {
    name: 'userspace',
    probe: async () => ({
      IPv4: { usable: true, detail: '' },
      IPv6: { usable: true, detail: '' },
    }),
    start: async () => {
      const capture = new ExclusiveCapture(fakeCapture(told), {
        clock: systemClock,
        lock: lock('first'),
        tools: new StoppableTools(),
        resync: () => {},
        removeOthers: async () => [],
        keeps: false,
      })
      return {
        name: 'userspace',
        placements: [],
        problems: [],
        lend: async () => () => {},
        sync: async all => {
          await beforeUserspace()
          await capture.steer(await capture.place([]), all)
        },
        drain: async () => ({ reset: 0 }),
        close: () => capture.close(),
      }
    },
  }
  const first = await FallbackMode.start({
    request: { mode: 'iptables', by: '' },
    steps: [kernelStep, userspaceStep],
    fellBack: () => told.push('first falls back'),
    failed: () => told.push('failed'),
  })
  t.teardown(() => first.close())
  await first.sync(snapshots)
  const second = kernelMode('second', new FakeProxier())
  t.teardown(() => second.close())
  const secondSync = second.sync(snapshots)
  secondSync.catch(() => {})
  await until('the second waits', () => told.includes('second waits'))
  broken.broken = 'its tool is gone'
  await t.rejects(first.sync(snapshots))
  await t.rejects(first.sync(snapshots))
  isThere = false
  told.length = 0
  return {
    first,
    second,
    secondSync,
    told,
    /** Between the end of the first mode and the first sync of the next one. */
    between: (wait: () => Promise<void>) => void (beforeUserspace = wait),
  }
}

const fakeCapture = (told: string[]): Capture => ({
  place: async () => [],
  steer: async () => void told.push('first leads by userspace'),
  problems: () => [],
  hold: async () => {},
  close: async () => void told.push('first has ended'),
})

t.test('a fallback goes on with the host where it was', linuxOnly, async t => {
  const { first, secondSync, told } = await twoUshers(t)
  await first.sync(snapshots)
  t.strictSame(told, ['first falls back', 'first leads by userspace'])
  await first.close()
  await secondSync
  t.strictSame(told.slice(2), ['first has ended', 'second leads'])
})

t.test('an Usher that comes between has the host to itself', linuxOnly, async t => {
  const { first, second, secondSync, told, between } = await twoUshers(t)
  between(() => secondSync)
  const falling = first.sync(snapshots)
  await until('it waits in its turn', () => told.includes('first waits'))
  t.strictSame(told, ['first falls back', 'second leads', 'first waits'])
  await second.close()
  await falling
  t.equal(told.at(-1), 'first leads by userspace')
})

t.test('and the one that waits can be ended', linuxOnly, async t => {
  const { first, secondSync, told, between } = await twoUshers(t)
  between(() => secondSync)
  const falling = t.rejects(first.sync(snapshots), /has ended/)
  await until('it waits in its turn', () => told.includes('first waits'))
  await Promise.all([first.close(), falling])
  t.strictSame(told, ['first falls back', 'second leads', 'first waits'])
})
