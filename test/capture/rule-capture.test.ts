import { isDeepStrictEqual } from 'node:util'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Placement, ExclusiveCapture } from '../../src/capture/capture.ts'
import { joinProbes } from '../../src/kernel/probe.ts'
import { Families } from '../../src/kernel/keeper/families.ts'
import type { HostLock } from '../../src/kernel/keeper/host-lock.ts'
import { RuleCapture, type RuleCaptureDeps } from '../../src/capture/rule-capture.ts'
import { vipRules } from '../../src/capture/iptables/vip-rule.ts'
import { steeredPort, type SteeringRules } from '../../src/capture/steering.ts'
import { Installed } from '../../src/kernel/keeper/installed.ts'
import {
  type KernelSettings,
  type KernelSync,
  plainSettings,
} from '../../src/kernel/proxier.ts'
import type { FlowVip } from '../../src/kernel/conntrack.ts'
import { StoppableTools } from '../../src/kernel/run-tool.ts'
import type { Problem, ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { endpoint } from '../support/objects.ts'
import { clusterIp, nodePort, servicePort } from '../support/service-ports.ts'

/** Stands for the kernel: keeps what it was told, and fails when it is to. */
class Kernel implements SteeringRules {
  readonly calls: string[] = []
  readonly #installed = new Installed<Snapshot>()
  settings: KernelSettings | undefined
  failure = ''
  replaceFailure = ''
  damaged: (what: string) => void = () => {}
  watches = 0

  get servicePorts(): readonly ServicePort[] {
    const { servicePorts = new Map() } = this.#installed.value ?? {}
    return [...servicePorts.values()]
  }

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    let work: KernelSync['work'] = 'nothing'
    await this.#installed.write(async known => {
      const to = new Set(snapshot.servicePorts.values())
      if (known === undefined || !isDeepStrictEqual(settings, this.settings)) {
        work = 'full'
        this.#called(`replace ${to.size}`)
        if (this.replaceFailure !== '') throw new Error(this.replaceFailure)
      } else {
        const from = new Set(known.servicePorts.values())
        const gone = [...from].filter(one => !to.has(one)).length
        const come = [...to].filter(one => !from.has(one)).length
        if (gone + come > 0) work = 'partial'
        if (gone + come > 0) this.#called(`change -${gone} +${come}`)
      }
      this.settings = settings
      await this.written()
      return snapshot
    })
    return { work }
  }

  written = async (): Promise<void> => {}

  forget(): void {
    this.#installed.forget()
  }

  problems(): readonly Problem[] {
    return []
  }

  async hold(): Promise<void> {
    this.#called('hold')
  }

  async release(): Promise<void> {
    this.#called('release')
  }

  async remove(): Promise<void> {
    this.#called('remove')
  }

  watch(damaged: (what: string) => void): () => void {
    this.damaged = damaged
    this.watches += 1
    return () => (this.watches -= 1)
  }

  close(): void {}

  #called(what: string): void {
    this.calls.push(what)
    if (this.failure !== '') throw new Error(this.failure)
  }
}

/** What the first sync does to it. */
const begun = ['hold', 'replace 1', 'others go', 'release']

const proxyPort = 40_000

/** As a capture by rules places them: all VIPs on one proxy port. */
const placedBy = (servicePorts: readonly ServicePort[]): readonly Placement[] =>
  servicePorts.map((one, i) => ({
    servicePort: one,
    listenerId: `${one.family} ${one.key}`,
    vips: one.vips.map(vip => ({
      vip,
      capture: 'nftables',
      binds: [{ address: '169.254.77.88', port: proxyPort + i }],
      reason: '',
    })),
  }))

const flowText = ({ address = '*', port, to }: FlowVip): string =>
  `${address} ${port}${to?.map(one => ` but those to ${one.port}`).join() ?? ''}`

const setUp = (over: Partial<RuleCaptureDeps> = {}) => {
  const kernel = new Kernel()
  const clock = new FakeClock()
  const told: string[] = []
  const forgotten: string[] = []
  const steps: string[] = []
  const capture = new RuleCapture({
    clock,
    name: 'nftables',
    rules: new Map([['IPv4', kernel]]),
    families: new Families({
      clock,
      object: 'capture nftables',
      unusable: new Map([['IPv6', 'it is off']]),
      probe: async () => ({ usable: false, detail: 'it is off' }),
      resync: () => void told.push('resync'),
    }),
    holdOthers: async () => {},
    listen: { place: async servicePorts => placedBy(servicePorts) },
    applied: async () => {},
    removeOthers: async () => void kernel.calls.push('others go'),
    prepare: async () => void (steps.includes('prepare') || steps.push('prepare')),
    release: async keep => void steps.push(keep ? 'release, keep' : 'release'),
    nodePortCidrs: () => undefined,
    podCidrs: () => ['10.244.0.1/24', 'fd00::/64'],
    forgetWaiting: async () => undefined,
    conntrack: {
      problem: '',
      forgetFlows: async vips => {
        forgotten.push(...vips.map(flowText))
        return 0
      },
    },
    left: async () => [],
    keepRules: false,
    hasSockets: () => false,
    resync: () => void told.push('resync'),
    observers: [
      {
        synced: (family, { work }) => told.push(`${family} ${work}`),
        repaired: (_family, what, error) => told.push(`repaired ${what} ${error}`.trim()),
      },
    ],
    failed: (what, why) => told.push(`${what}: ${why}`),
    ...over,
  })
  const sync = async (...servicePorts: ServicePort[]): Promise<void> =>
    capture.steer(await capture.place(servicePorts), [])
  return { kernel, clock, told, forgotten, steps, capture, sync }
}

const endpointAt = (address: string) => ({ ...endpoint(address), port: 8080 })

const web = servicePort('web', { vips: [clusterIp('10.96.0.1')] })
const dns = servicePort('dns', { protocol: 'UDP', vips: [clusterIp('10.96.0.2', 53)] })

t.test('the first sync writes all rules, later ones what changed', async t => {
  const { kernel, sync, steps } = setUp()
  await sync(web)
  await sync(web, dns)
  await sync(dns)
  // The second ServicePort's place in the list gave it another proxy port: one changed rule.
  t.strictSame(kernel.calls, [...begun, 'change -0 +1', 'change -2 +1'])
  t.strictSame(
    kernel.servicePorts.map(({ vips, steeredTo }) => [vips, steeredTo]),
    [[dns.vips, [{ address: '169.254.77.88', port: proxyPort }]]],
  )
  t.strictSame(steps, ['prepare'])
  t.strictSame(kernel.settings, {
    ...plainSettings,
    relay: { serves: 'alone', nodePods: ['10.244.0.0/24'] },
  })
})

t.test('nobody gets to a port of an earlier process by what is left of it', async t => {
  const order: string[] = []
  const { kernel, sync } = setUp({
    prepare: async () => void order.push('prepare'),
    listen: {
      place: async servicePorts => {
        order.push(...kernel.calls.splice(0), 'place')
        return placedBy(servicePorts)
      },
    },
    forgetWaiting: async family => {
      order.push(...kernel.calls.splice(0), `forget ${family}`)
      return undefined
    },
  })
  kernel.failure = 'locked'
  await t.rejects(sync(web), { message: 'locked' })
  t.strictSame([order.splice(0), kernel.calls.splice(0)], [['prepare'], ['hold']])
  kernel.failure = ''
  await sync(web)
  t.strictSame(order.splice(0), [
    'prepare',
    'hold',
    'forget IPv4',
    'place',
    'replace 1',
    'others go',
    'forget IPv4',
  ])
  t.strictSame(kernel.calls.splice(0), ['release'])
  await sync(web, dns)
  t.strictSame([order, kernel.calls], [['prepare', 'place'], ['change -0 +1']])
})

t.test('they wait until the rules can be written', async t => {
  const { kernel, sync } = setUp()
  kernel.replaceFailure = 'no memory'
  await t.rejects(sync(web), { message: 'no memory' })
  await t.rejects(sync(web), { message: 'no memory' })
  kernel.replaceFailure = ''
  await sync(web)
  t.strictSame(kernel.calls, ['hold', 'replace 1', 'replace 1', ...begun.slice(1)])
})

t.test('it is told when flows of an earlier process can not be ended', async t => {
  const forgetWaiting = async (): Promise<Error> => new Error('no conntrack')
  const { kernel, told, sync } = setUp({ forgetWaiting })
  await sync(web)
  const what = 'ending flows to the proxy ports of an earlier Usher: no conntrack'
  t.strictSame(told, [what, what, 'IPv4 full'])
  t.strictSame(kernel.calls, begun)
})

t.test('flows to a UDP VIP that went are ended once its rule is gone', async t => {
  const { kernel, told, forgotten, sync } = setUp()
  await sync(web, dns)
  kernel.failure = 'locked'
  await t.rejects(sync(web))
  await t.rejects(sync(web))
  forgotten.length = 0
  kernel.failure = ''
  await sync(web)
  t.strictSame(forgotten.splice(0), ['10.96.0.2 53'])
  await sync(web, dns)
  forgotten.length = 0
  kernel.failure = 'locked'
  await t.rejects(sync(web))
  kernel.failure = ''
  kernel.damaged('a rule is gone')
  await sync(web)
  t.match(told.at(-1), /^repaired/)
  t.strictSame(forgotten, ['10.96.0.2 53'], 'also by a repair')
})

t.test('what changes nothing for the rules runs nothing', async t => {
  const { kernel, sync } = setUp()
  await sync(web)
  await sync(web)
  // Other endpoints, another affinity: the relay's business.
  await sync({ ...web, endpoints: [endpointAt('10.0.0.9')], affinityMs: 1000 })
  t.strictSame(kernel.calls, [...begun])
})

t.test('after a failure everything is written anew, and problems tell why', async t => {
  const { kernel, sync, capture } = setUp()
  await sync(web)
  kernel.failure = 'nft -f -: no'
  await t.rejects(sync(web, dns), { message: 'nft -f -: no' })
  t.strictSame(capture.problems(), [
    { object: 'capture nftables', field: 'IPv4', message: 'nft -f -: no' },
  ])
  kernel.failure = ''
  await sync(web, dns)
  t.strictSame(kernel.calls, [...begun, 'change -0 +1', 'replace 2'])
  t.strictSame(capture.problems(), [])
})

t.test('rules that somebody changed are written again', async t => {
  const { kernel, told, sync, capture } = setUp()
  await sync(web)
  kernel.damaged('the table is gone')
  kernel.damaged('the table is gone')
  t.match(capture.problems(), [{ field: 'IPv4', message: /another program.*is gone/ }])
  await sync(web)
  t.strictSame(capture.problems(), [], 'until it is put back')
  t.strictSame(kernel.calls, [...begun, 'replace 1'])
  kernel.failure = 'locked'
  kernel.damaged('a rule is gone')
  await t.rejects(sync(web), { message: 'locked' })
  kernel.failure = ''
  await sync(web)
  t.strictSame(told, [
    'IPv4 full',
    'resync',
    'resync',
    'IPv4 full',
    'repaired the table is gone',
    'resync',
    'repaired a rule is gone locked',
    'IPv4 full',
    'repaired a rule is gone',
  ])
  t.equal(kernel.watches, 1)
  await capture.close()
  t.equal(kernel.watches, 0)
})

t.test('new settings write all of it anew', async t => {
  let pods = ['10.244.0.0/24']
  const { kernel, sync } = setUp({ podCidrs: () => pods })
  await sync(web)
  pods = ['10.244.7.0/24']
  await sync(web)
  t.strictSame(kernel.calls, [...begun, 'replace 1'])
  t.strictSame(kernel.settings?.relay?.nodePods, ['10.244.7.0/24'])
})

t.test('UDP flows are forgotten where their rule came, changed or went', async t => {
  const { forgotten, sync } = setUp()
  const served = { ...dns, internal: { verdict: 'forward', endpoints: [] } } as const
  await sync(served, web)
  t.strictSame(forgotten.splice(0), ['10.96.0.2 53 but those to 40000'])
  await sync({ ...served, endpoints: [endpointAt('10.0.0.9')] }, web)
  t.strictSame(forgotten.splice(0), [])
  await sync({ ...served, internal: { verdict: 'drop', endpoints: [] } }, web)
  t.strictSame(forgotten.splice(0), ['10.96.0.2 53'])
  await sync(web)
  t.strictSame(forgotten.splice(0), ['10.96.0.2 53'])
})

t.test('after rules were missing, flows to all UDP VIPs are looked at', async t => {
  const { kernel, forgotten, sync } = setUp()
  await sync(web, dns)
  forgotten.length = 0
  kernel.damaged('the table is gone')
  await sync(web, dns)
  t.strictSame(forgotten.splice(0), ['10.96.0.2 53'])
  await sync(web, dns)
  t.strictSame(forgotten, [], 'and then no more')
})

t.test('at the end new clients wait, then the rules go', async t => {
  const { kernel, clock, steps, capture, sync } = setUp()
  await sync(web)
  await held(clock, capture)
  await capture.close()
  t.strictSame(kernel.calls, [...begun, 'hold', 'remove'])
  t.strictSame(steps, ['prepare', 'release'])
})

t.test('rules that are broken do not keep connections from being drained', async t => {
  const { kernel, clock, told, capture, sync } = setUp()
  await sync(web)
  kernel.failure = 'nft -f -: No such file or directory'
  await held(clock, capture)
  t.match(told, ['IPv4 full', /keeping new clients waiting: nft -f -: No such file/])
  kernel.failure = ''
  await capture.close()
  t.strictSame(kernel.calls, [...begun, 'hold', 'remove'])
})

t.test('damage at the end is left as it is', async t => {
  const { kernel, clock, told, capture, sync } = setUp()
  await sync(web)
  await held(clock, capture)
  kernel.damaged('a rule is gone')
  t.strictSame(told, ['IPv4 full'])
  t.equal(kernel.watches, 0)
})

t.test('damage that comes during a repair asks for another', async t => {
  const { kernel, told, sync } = setUp()
  await sync(web)
  let done = (): void => {}
  kernel.damaged('1')
  kernel.written = () => new Promise<void>(resolve => (done = resolve))
  const repairing = sync(web)
  await until(() => kernel.calls.length === begun.length + 1)
  for (const what of ['2', '3']) kernel.damaged(what)
  done()
  await repairing
  const again = sync(web)
  await until(() => kernel.calls.length === begun.length + 2)
  done()
  await again
  kernel.written = async () => {}
  await sync(web)
  const repairs = told.filter(line => line.startsWith('repaired'))
  t.strictSame(repairs, ['repaired 1', 'repaired 3'])
  t.equal(kernel.calls.length, begun.length + 2)
})

t.test('--keep-rules leaves them, held', async t => {
  const { kernel, clock, steps, capture, sync } = setUp({ keepRules: true })
  await sync(web)
  await held(clock, capture)
  await capture.close()
  t.strictSame(kernel.calls, [...begun, 'hold'])
  t.strictSame(steps, ['prepare', 'release, keep'])
})

t.test('an end before anything was written leaves what is there', async t => {
  const { kernel, steps, capture } = setUp()
  await capture.hold()
  await capture.close()
  t.strictSame([kernel.calls, steps], [[], []])
})

const held = async (clock: FakeClock, capture: RuleCapture): Promise<void> => {
  const done = capture.hold()
  await until(() => clock.waiting > 0)
  clock.advance(200)
  await done
}

const until = async (done: () => boolean): Promise<void> => {
  for (let i = 0; i < 1000 && !done(); i += 1) await turn()
}

const exclusiveOf = (
  capture: RuleCapture,
  lock: HostLock,
  removeOthers = async (): Promise<readonly Problem[]> => [],
): ExclusiveCapture =>
  new ExclusiveCapture(capture, {
    clock: new FakeClock(),
    resync: () => {},
    lock,
    tools: new StoppableTools(),
    removeOthers,
    keeps: false,
  })

t.test('what other captures have left goes once, when traffic is led', async t => {
  const { kernel, capture } = setUp()
  const removals: string[] = []
  const lock = { acquire: async () => true, release: async () => {} }
  const exclusive = exclusiveOf(capture, lock, async () => {
    removals.push('others')
    return []
  })
  const placements = await exclusive.place([web])
  kernel.failure = 'locked'
  await t.rejects(exclusive.steer(placements, []), { message: 'locked' })
  t.strictSame(removals, [])
  kernel.failure = ''
  await exclusive.steer(placements, [])
  await exclusive.steer(placements, [])
  t.strictSame(removals, ['others'])
})

t.test('with --keep-rules the next process need not wait for the drain', async t => {
  const { capture, kernel, clock, steps } = setUp({ keepRules: true })
  const lock = { acquire: async () => true, release: async () => void steps.push('free') }
  const exclusive = new ExclusiveCapture(capture, {
    clock: new FakeClock(),
    lock,
    tools: new StoppableTools(),
    resync: () => {},
    removeOthers: async () => [],
    keeps: true,
  })
  await exclusive.steer(await exclusive.place([web]), [])
  const holding = exclusive.hold()
  await until(() => clock.waiting > 0)
  clock.advance(200)
  await holding
  t.strictSame(steps, ['prepare', 'free'])
  await exclusive.close()
  t.strictSame(kernel.calls, [...begun, 'hold'])
})

t.test('an end does not wait for a tool that hangs', async t => {
  const clock = new FakeClock()
  const { capture } = setUp()
  capture.steer = () => new Promise(() => {})
  const lock = { acquire: async () => true, release: async () => {} }
  const exclusive = new ExclusiveCapture(capture, {
    clock,
    lock,
    tools: new StoppableTools(),
    resync: () => {},
    removeOthers: async () => [],
    keeps: false,
  })
  void exclusive.steer(await exclusive.place([web]), [])
  const holding = exclusive.hold()
  for (const _patience of ['with the tool', 'with its failure']) {
    await until(() => clock.waiting > 0)
    clock.advance(3000)
    await turn()
  }
  await holding
  t.pass('it went on')
})

t.test('one process of a host captures, and nothing is done after its end', async t => {
  const { kernel, capture, clock, steps } = setUp()
  const lock = { free: false, waiters: [] as ((held: boolean) => void)[] }
  const exclusive = exclusiveOf(capture, {
    acquire: () =>
      lock.free
        ? Promise.resolve(true)
        : new Promise(resolve => void lock.waiters.push(resolve)),
    release: async () => {
      steps.push('unlock')
      for (const wake of lock.waiters.splice(0)) wake(false)
    },
  })

  t.test('it waits for the earlier one', async t => {
    const placing = exclusive.place([web])
    await until(() => lock.waiters.length > 0)
    t.strictSame(steps, [])
    for (const wake of lock.waiters.splice(0)) wake(true)
    const placements = await placing
    const steering = exclusive.steer(placements, [])
    const holding = exclusive.hold()
    await until(() => clock.waiting > 0)
    clock.advance(200)
    await Promise.all([steering, holding])
    t.strictSame(kernel.calls, [...begun, 'hold'], 'what was under way came first')
    await t.rejects(exclusive.steer(placements, []), { message: 'the capture has ended' })
    await exclusive.close()
    t.strictSame(kernel.calls.splice(0), [...begun, 'hold', 'remove'])
    t.strictSame(steps.splice(0), ['prepare', 'release', 'unlock'])
  })

  t.test('its end ends the waiting, and touches nothing', async t => {
    const waiting = exclusiveOf(capture, {
      acquire: () => new Promise(resolve => void lock.waiters.push(resolve)),
      release: async () => {
        for (const wake of lock.waiters.splice(0)) wake(false)
      },
    })
    const placing = waiting.place([web])
    await until(() => lock.waiters.length > 0)
    await waiting.hold()
    await waiting.close()
    await t.rejects(placing, { message: 'the capture has ended' })
    t.strictSame([kernel.calls, steps], [[], []])
  })
})

t.test('what becomes of packets to each kind of VIP', t => {
  const here: Target = { verdict: 'forward', endpoints: [endpointAt('10.0.0.1')] }
  const drop: Target = { verdict: 'drop', endpoints: [] }
  const none: Target = { verdict: 'reject', endpoints: [] }
  const vips = [
    clusterIp('10.96.0.1'),
    { kind: 'ExternalIP' as const, address: '203.0.113.1', port: 80 },
    { kind: 'LoadBalancerIP' as const, address: '203.0.113.2', port: 80 },
    nodePort('0.0.0.0'),
  ]
  const verdicts = (over: Partial<ServicePort>): string[] => {
    const [placement] = placedBy([servicePort('web', { vips, ...over })])
    const steered = placement && steeredPort(placement)
    return steered === undefined
      ? []
      : vipRules(steered).map(
          ({ key, outside, fromNode, allowedClients }) =>
            `${key}: ${outside}/${fromNode}${allowedClients ? ` for ${allowedClients.join()}` : ''}`,
        )
  }
  const check = (
    t: Test,
    over: Partial<ServicePort>,
    wanted: readonly string[],
  ): void => {
    const names = [
      '10.96.0.1 TCP 80',
      '203.0.113.1 TCP 80',
      '203.0.113.2 TCP 80',
      '* TCP 30080',
    ]
    t.strictSame(
      verdicts(over),
      names.map((name, i) => `${name}: ${wanted[i]}`),
    )
  }
  const all = (target: Target) => ({
    internal: target,
    external: target,
    externalFromNode: target,
  })
  t.test('forwarded for everybody', async t => {
    const same = 'forward/forward'
    check(t, all(here), [same, same, same, same])
  })
  t.test('no endpoint: refused', async t => {
    const same = 'reject/reject'
    check(t, all(none), [same, same, same, same])
  })
  t.test('internal policy Local without a local endpoint: dropped', async t => {
    const same = 'forward/forward'
    check(t, { ...all(here), internal: drop }, ['drop/drop', same, same, same])
  })
  t.test('external policy Local without one: only for those elsewhere', async t => {
    const outside = 'drop/forward'
    const wanted = ['forward/forward', outside, outside, outside]
    check(t, { ...all(here), external: drop }, wanted)
  })
  t.test('source ranges are for load-balancer IPs alone', async t => {
    const same = 'forward/forward'
    const ranged = `${same} for 10.0.0.0/8`
    check(t, { ...all(here), sourceRanges: ['10.0.0.0/8'] }, [same, same, ranged, same])
  })
  t.end()
})

t.test('what has no proxy port is steered nowhere', async t => {
  const [placement] = placedBy([web])
  const [first] = placement?.vips ?? []
  if (placement === undefined || first === undefined) throw new Error('no placement')
  const unplaced = { ...first, binds: [] }
  const { vips, steeredTo } = steeredPort({ ...placement, vips: [unplaced, first] }) ?? {}
  t.strictSame(
    [vips, steeredTo],
    [web.vips, [{ address: '169.254.77.88', port: proxyPort }]],
  )
  t.equal(steeredPort({ ...placement, vips: [unplaced] }), undefined)
})

t.test('beside a kernel mode it finds proxy ports, and leads nobody', async t => {
  const order: string[] = []
  const { kernel, told, capture, steps } = setUp({
    rules: new Map(),
    forgetWaiting: async family => {
      order.push(`forget ${family}`)
      return undefined
    },
  })
  const placements = await capture.place([web])
  t.equal(placements.length, 1)
  await capture.steer(placements, [])
  t.strictSame(order, ['forget IPv4'], 'nobody gets to a port of an earlier process')
  await capture.hold()
  await capture.close()
  t.strictSame([kernel.calls, told, steps], [[], [], ['prepare', 'release']])
})

t.test('one family is enough for a capture, and the other is told', async t => {
  const [yes, no] = [
    { usable: true, detail: 'nft 1.0.6' },
    { usable: false, detail: 'IPv6 is off' },
  ]
  t.strictSame(joinProbes({ IPv4: yes, IPv6: yes }), yes)
  t.strictSame(joinProbes({ IPv4: yes, IPv6: no }), {
    usable: true,
    detail: 'nft 1.0.6; not for IPv6: IPv6 is off',
  })
  t.match(joinProbes({ IPv4: no, IPv6: yes }), {
    usable: true,
    detail: /not for IPv4: IPv6 is off/,
  })
  t.equal(joinProbes({ IPv4: no, IPv6: no }).usable, false)
})
