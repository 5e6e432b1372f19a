import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Capture, VipPlacement } from '../../src/capture/capture.ts'
import {
  boundProxyAddress,
  ListenCapture,
  type ListenCaptureDeps,
} from '../../src/capture/listen.ts'
import {
  bindAddresses,
  interfaceAddresses,
  LocalAddresses,
} from '../../src/capture/local-addresses.ts'
import { ProxyPorts, type TryPort } from '../../src/capture/proxy-ports.ts'
import type { ServicePort, Target } from '../../src/model/snapshot.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { endpoint } from '../support/objects.ts'
import { clusterIp, nodePort, servicePort } from '../support/service-ports.ts'

/** A host that owns `mine`, and every port of which is free. */
const deps = (over: Partial<ListenCaptureDeps> = {}, mine: string[] = []) => {
  const range = over.proxyPortRange
  return {
    mode: 'listen' as const,
    proxyAddress: boundProxyAddress('127.0.0.1'),
    proxyPortRange: undefined,
    localAddresses: new LocalAddresses(new FakeClock(), async one => mine.includes(one)),
    proxyPorts: new ProxyPorts(range, () => 0, portsOf(40_000)),
    ofInterfaces: () => ['192.0.2.1', '192.0.2.2'],
    ...over,
  }
}

/** Every port asked for is free; asked for any, gives the numbers from `first` on. */
const portsOf = (first: number): TryPort => {
  let next = first
  return async (_protocol, _addresses, port) => (port === 0 ? next++ : port)
}

const at = (port: number, ...addresses: string[]) =>
  addresses.map(address => ({ address, port }))

/** One capture for the same things, so that it has seen what was placed before. */
const captures = new WeakMap<ListenCaptureDeps, Capture>()
const captureOf = (with_: ListenCaptureDeps): Capture => {
  const capture = captures.get(with_) ?? new ListenCapture(with_)
  captures.set(with_, capture)
  return capture
}

/** How each VIP is served, in the order of ServicePorts and their VIPs. */
const placed = async (
  with_: ListenCaptureDeps,
  ...servicePorts: ServicePort[]
): Promise<Omit<VipPlacement, 'vip'>[]> => {
  const placements = await captureOf(with_).place(servicePorts)
  return placements.flatMap(({ vips }) =>
    vips.map(({ capture, binds, reason }) => ({ capture, binds, reason })),
  )
}

const onProxyPort = (port: number, ...addresses: string[]) => ({
  capture: 'none',
  binds: at(port, ...addresses),
  reason: '',
})

t.test(
  'a placement names its ServicePort, its listener and each VIP in order',
  async t => {
    const vips = [clusterIp('10.0.0.1'), clusterIp('10.0.0.2', 8080)]
    const one = servicePort('web', { vips })
    const six = servicePort('web', { family: 'IPv6', vips: [clusterIp('fd00::1')] })
    const [first, second] = await new ListenCapture(deps()).place([one, six])
    t.equal(first?.servicePort, one)
    t.strictSame(
      first?.vips.map(({ vip }) => vip),
      vips,
    )
    t.equal(second?.servicePort, six)
    t.not(first?.listenerId, second?.listenerId, 'the families listen for themselves')
  },
)

t.test('which VIP is served how', async t => {
  const vips = [clusterIp('127.96.0.1'), clusterIp('10.0.0.1', 8080)]
  const web = servicePort('web', { vips })
  const mine = ['127.96.0.1']
  const onVip = { capture: 'listen', binds: at(80, '127.96.0.1'), reason: '' }

  t.test('listen: those of this host on themselves, others on a proxy port', async t => {
    t.strictSame(await placed(deps({}, mine), web), [
      onVip,
      onProxyPort(40_000, '127.0.0.1'),
    ])
  })

  t.test('local: others are not captured, for a reason', async t => {
    const [first, second] = await placed(deps({ mode: 'local' }, mine), web)
    t.strictSame(first, { ...onVip, capture: 'local' })
    t.match(second, { capture: 'not captured', binds: [], reason: /--capture auto/ })
    const [own, other] = await placed(deps({ mode: 'vips-only' }, mine), web)
    t.strictSame(own, onVip, 'nothing was made an address of this host')
    t.match(other, { capture: 'not captured' })
  })

  t.test('none: all share the proxy port of their ServicePort', async t => {
    const other = servicePort('other')
    t.strictSame(await placed(deps({ mode: 'none' }, mine), web, other), [
      onProxyPort(40_000, '127.0.0.1'),
      onProxyPort(40_000, '127.0.0.1'),
      onProxyPort(40_001, '127.0.0.1'),
    ])
  })

  t.test('none: no address is probed', async t => {
    const localAddresses = new LocalAddresses(new FakeClock(), () =>
      Promise.reject(new Error('probed')),
    )
    await t.resolves(placed(deps({ mode: 'none', localAddresses }), web))
  })

  t.test('a ServicePort whose VIPs are all local takes no proxy port', async t => {
    const asked: number[] = []
    const proxyPorts = new ProxyPorts(undefined, Math.random, async () => asked.push(1))
    await placed(deps({ proxyPorts }, [...mine, '10.0.0.1']), web)
    t.strictSame(asked, [])
  })

  t.test('a VIP that becomes local moves to itself when the answer is old', async t => {
    const clock = new FakeClock()
    const own = new Set<string>()
    const localAddresses = new LocalAddresses(clock, async one => own.has(one))
    const given = deps({ localAddresses })
    const kinds = async () => (await placed(given, web)).map(({ capture }) => capture)
    t.strictSame(await kinds(), ['none', 'none'])
    own.add('127.96.0.1')
    t.strictSame(await kinds(), ['none', 'none'])
    clock.advance(30_000)
    t.strictSame(await kinds(), ['listen', 'none'])
  })
})

const ofInterfaces = (family: string): string[] =>
  family === 'IPv4' ? ['127.0.0.1', '192.0.2.1', '192.0.2.1'] : ['::1', 'fd00::1']

t.test('wildcards', async t => {
  const mine = ['0.0.0.0', '::']
  const given = deps({ ofInterfaces }, mine)
  const cases: [Partial<ServicePort>, string[]][] = [
    [{ protocol: 'TCP', vips: [nodePort('0.0.0.0')] }, ['0.0.0.0']],
    [{ protocol: 'TCP', family: 'IPv6', vips: [nodePort('::')] }, ['::']],
    [{ protocol: 'UDP', vips: [nodePort('0.0.0.0')] }, ['127.0.0.1', '192.0.2.1']],
    [{ protocol: 'UDP', family: 'IPv6', vips: [nodePort('::')] }, ['::1', 'fd00::1']],
  ]
  for (const [spec, addresses] of cases) {
    const { protocol, family = 'IPv4' } = spec
    t.test(
      `a NodePort for ${protocol} in ${family} is bound on ${addresses.join()}`,
      async t => {
        const [vip] = await placed(given, servicePort('web', spec))
        t.strictSame(vip, {
          capture: 'listen',
          binds: at(30080, ...addresses),
          reason: '',
        })
      },
    )
    t.test(`a proxy port for ${protocol} in ${family} too`, async t => {
      const [vip] = await placed(
        deps({ ofInterfaces, mode: 'none', proxyAddress: boundProxyAddress('0.0.0.0') }),
        servicePort('web', spec),
      )
      t.strictSame(vip, onProxyPort(40_000, ...addresses))
    })
  }

  t.test('a node port listens for VIPs of the same port beside it', async t => {
    const host = deps({ ofInterfaces }, ['192.0.2.1', ...mine])
    const vips = [clusterIp('192.0.2.1', 30_080), nodePort('0.0.0.0')]
    const forward: Target = { verdict: 'forward', endpoints: [] }
    const policies: [Partial<ServicePort>, VipPlacement['binds'][]][] = [
      [{}, [at(30080, '0.0.0.0'), at(30080, '0.0.0.0')]],
      [{ external: forward }, [at(30080, '192.0.2.1'), at(30080, '0.0.0.0')]],
    ]
    for (const [over, binds] of policies) {
      const found = await placed(host, servicePort('web', { vips, ...over }))
      t.strictSame(
        found.map(one => one.binds),
        binds,
      )
    }
  })

  t.test('a bind address that is :: serves both families', async t => {
    const both = [servicePort('web'), servicePort('web', { family: 'IPv6' })]
    t.strictSame(await placed(deps({ proxyAddress: boundProxyAddress('::') }), ...both), [
      onProxyPort(40_000, '0.0.0.0'),
      onProxyPort(40_001, '::'),
    ])
  })

  t.test('UDP in a family of which the host has no address is not captured', async t => {
    const bare = { ofInterfaces: () => [], proxyAddress: boundProxyAddress('0.0.0.0') }
    const six = { protocol: 'UDP', family: 'IPv6', vips: [nodePort('::')] } as const
    const expected = {
      capture: 'not captured',
      binds: [],
      reason: 'this host has no IPv6 address',
    }
    t.strictSame(await placed(deps(bare), servicePort('dns', six)), [expected])
    t.strictSame(await placed(deps(bare, ['::']), servicePort('dns', six)), [expected])
  })

  t.test('an address that is none is left to UDP as it is', async t => {
    t.strictSame(bindAddresses('UDP', '127.0.0.1'), ['127.0.0.1'])
    t.strictSame(bindAddresses('UDP', '::1'), ['::1'])
  })

  t.test('the real interfaces have loopback, and nothing that needs a zone', async t => {
    t.ok(interfaceAddresses('IPv4').includes('127.0.0.1'))
    t.notOk(interfaceAddresses('IPv6').some(one => one.startsWith('fe80')))
    t.ok(interfaceAddresses('IPv4').every(one => one.includes('.')))
  })
})

t.test('an IPv6 VIP is not captured at an IPv4 bind address, and vice versa', async t => {
  const [four] = await placed(
    deps({ proxyAddress: boundProxyAddress('fd00::1') }),
    servicePort('web'),
  )
  const [six] = await placed(deps(), servicePort('web', { family: 'IPv6' }))
  t.strictSame(six, {
    capture: 'not captured',
    binds: [],
    reason: '--bind-address 127.0.0.1 is not an IPv6 address',
  })
  t.match(four, {
    capture: 'not captured',
    reason: '--bind-address fd00::1 is not an IPv4 address',
  })
})

t.test('a node port is bound on the addresses that --nodeport-addresses has', async t => {
  let cidrs: string[] | undefined = ['192.0.2.0/31', '198.51.100.0/24']
  const given = deps({ mode: 'local', nodePortCidrs: () => cidrs, ofInterfaces }, [
    '0.0.0.0',
    '192.0.2.1',
  ])
  const vips = [nodePort('0.0.0.0'), clusterIp('192.0.2.1', 30_080)]
  const onOne = { capture: 'local', binds: at(30_080, '192.0.2.1'), reason: '' }
  const [web, dns] = [
    servicePort('web', { vips }),
    servicePort('dns', { vips, protocol: 'UDP' }),
  ]
  t.strictSame(await placed(given, web, dns), [onOne, onOne, onOne, onOne])
  cidrs = ['198.51.100.0/24']
  const [none] = await placed(given, web, dns)
  t.strictSame(none, {
    capture: 'not captured',
    binds: [],
    reason: 'no address of this host is in --nodeport-addresses (198.51.100.0/24)',
  })
  cidrs = undefined
  t.match(await placed(given, web), [
    { binds: at(30_080, '0.0.0.0') },
    { binds: at(30_080, '0.0.0.0') },
  ])
})

t.test('what leads to proxy ports is said of VIPs, and why there are none', async t => {
  const proxyAddress = (family: string) =>
    family === 'IPv4' ? { address: '127.0.0.1' } : { reason: 'nft can not do IPv6' }
  const given = deps({ mode: 'none', proxyKind: 'nftables', proxyAddress })
  const both = [servicePort('web'), servicePort('web', { family: 'IPv6' })]
  t.strictSame(await placed(given, ...both), [
    { ...onProxyPort(40_000, '127.0.0.1'), capture: 'nftables' },
    { capture: 'not captured', binds: [], reason: 'nft can not do IPv6' },
  ])
})

t.test('what the reason advises is for the caller to say', async t => {
  const web = servicePort('web')
  const [plain] = await placed(deps({ mode: 'local', advice: '' }), web)
  t.equal(plain?.reason, 'not an address of this host')
  const [told] = await placed(deps({ mode: 'local', advice: 'do this' }), web)
  t.equal(told?.reason, 'not an address of this host; do this')
})

t.test('VIPs whose clients get something else have proxy ports of their own', async t => {
  const vips = [
    clusterIp('10.0.0.1'),
    nodePort('0.0.0.0'),
    { kind: 'LoadBalancerIP', address: '198.51.100.1', port: 80 } as const,
  ]
  const target = (count: number): Target => ({
    verdict: count === 0 ? 'drop' : 'forward',
    endpoints: endpoints.slice(0, count),
  })
  const endpoints = ['10.1.0.1', '10.1.0.2'].map(ip =>
    Object.assign(endpoint(ip), { port: 80 }),
  )
  const web = (external: number, sourceRanges?: readonly string[]) =>
    servicePort('web', {
      vips,
      internal: target(2),
      external: target(external),
      externalFromNode: target(2),
      sourceRanges,
    })
  const rows: [string, ServicePort, (number | string)[]][] = [
    ['all alike: one port', web(2), [100, 100, 100]],
    ['a policy is felt: external ones move', web(1), [100, 101, 101]],
    ['it is not felt for a while: they stay', web(2), [100, 101, 101]],
    ['source ranges: load-balancer IPs move', web(0, ['192.0.2.0/24']), [100, 101, 102]],
    ['without ranges again they stay', web(2), [100, 101, 102]],
  ]
  const with_ = ports(8)
  for (const [name, servicePort_, expected] of rows) {
    t.strictSame(await portsFor(with_, servicePort_), expected, name)
  }
  await portsFor(with_)
  t.strictSame(await portsFor(with_, web(2)), [100, 101, 102], 'after being away')
})

t.test('what was placed stays the same object', async t => {
  const clock = new FakeClock()
  const own = new Set<string>()
  let probes = 0
  const localAddresses = new LocalAddresses(clock, async one => {
    probes += 1
    return own.has(one)
  })
  const capture = new ListenCapture(deps({ localAddresses }))
  const [a, b, c] = ['a', 'b', 'c'].map((name, i) =>
    servicePort(name, { vips: [clusterIp(`10.0.0.${i}`)] }),
  )
  if (!a || !b || !c) throw new Error('three')
  const first = await capture.place([a, b, c])
  const newer = { ...b }
  const second = await capture.place([a, newer, c])
  t.strictSame([second[0] === first[0], second[2] === first[2]], [true, true])
  t.equal(second[1]?.servicePort, newer)
  t.equal(probes, 3)

  t.test('unless the host has changed meanwhile', async t => {
    own.add('10.0.0.2')
    clock.advance(30_000)
    const third = await capture.place([a, newer, c])
    t.strictSame([third[0] === first[0], third[1] === second[1]], [true, true])
    t.match(third[2], { vips: [{ capture: 'listen' }] })
    t.equal(probes, 6)
  })

  t.test('and goes with its ServicePort', async t => {
    const fourth = await capture.place([c, a])
    t.strictSame(
      fourth.map(({ servicePort: { name } }) => name),
      ['default/c', 'default/a'],
    )
    t.equal(fourth[1], first[0])
  })
})

/** `size` proxy ports from 100 on. */
const ports = (size: number, tryPort: TryPort = portsOf(40_000)) => {
  const range = { first: 100, last: 99 + size }
  const proxyPorts = new ProxyPorts(range, () => 0, tryPort)
  return deps({ mode: 'none', proxyPortRange: range, proxyPorts })
}
/** The proxy port of each ServicePort, or the reason why it has none. */
const portsFor = async (with_: ListenCaptureDeps, ...all: ServicePort[]) =>
  (await placed(with_, ...all)).map(({ binds, reason }) => binds[0]?.port ?? reason)

t.test('proxy ports', async t => {
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(name => servicePort(name))
  const none = 'no port of 100-101 is free on 127.0.0.1; widen --proxy-port-range'
  if (!a || !b || !c || !d) throw new Error('four')

  t.test('stay while VIPs and endpoints change', async t => {
    const with_ = ports(8)
    t.strictSame(await portsFor(with_, a, b), [100, 101])
    const moved = { ...b, vips: [clusterIp('10.9.9.9', 9)], affinityMs: 1 }
    t.strictSame(await portsFor(with_, moved, c, a), [101, 102, 100])
  })

  t.test('are there again for a ServicePort that was away', async t => {
    const with_ = ports(8)
    await portsFor(with_, a, b)
    t.strictSame(await portsFor(with_, c), [102])
    t.strictSame(await portsFor(with_, d, b, a), [103, 101, 100])
  })

  t.test('are not probed again once they are held', async t => {
    const probed: number[] = []
    const with_ = ports(8, async (_protocol, _addresses, port) => {
      probed.push(port)
      return port
    })
    await portsFor(with_, a)
    await portsFor(with_, a, b)
    t.strictSame(probed, [100, 101])
  })

  t.test('of a range that has run out are said to be so', async t => {
    t.strictSame(await portsFor(ports(2), a, b, c, d), [100, 101, none, none])
  })

  t.test('go to those who had none as soon as somebody is gone', async t => {
    const with_ = ports(2)
    t.strictSame(await portsFor(with_, a, b, c), [100, 101, none])
    t.strictSame(await portsFor(with_, a, b, c), [100, 101, none])
    t.strictSame(await portsFor(with_, b, c), [101, 100])
  })

  t.test('of those present are never given away', async t => {
    const with_ = ports(2)
    await portsFor(with_, a, b)
    t.strictSame(await portsFor(with_, c, a, b), [none, 100, 101])
  })

  t.test('of absent ones are given away only then, longest away first', async t => {
    const with_ = ports(3)
    await portsFor(with_, a, b)
    await portsFor(with_, a)
    await portsFor(with_)
    t.strictSame(await portsFor(with_, c), [102], 'while there is a free one')
    t.strictSame(await portsFor(with_, c, d), [102, 101], 'b is away for longer than a')
    t.strictSame(await portsFor(with_, b, c, d), [100, 102, 101], 'b takes that of a')
  })

  t.test('of TCP and UDP are numbers of their own', async t => {
    const with_ = ports(2)
    const [u, v, w] = ['u', 'v', 'w'].map(name => servicePort(name, { protocol: 'UDP' }))
    if (!u || !v || !w) throw new Error('three')
    t.strictSame(await portsFor(with_, a, b), [100, 101])
    await portsFor(with_, a)
    t.strictSame(await portsFor(with_, u, v), [100, 101])
    t.strictSame(
      await portsFor(with_, w),
      [100],
      'that of u, though b is away for longest',
    )
  })

  t.test('begin at a random place of the range and go round', async t => {
    const range = { first: 100, last: 103 }
    const proxyPorts = new ProxyPorts(range, () => 0.6, portsOf(1))
    const with_ = deps({ mode: 'none', proxyPortRange: range, proxyPorts })
    t.strictSame(await portsFor(with_, a, b, c, d), [102, 103, 100, 101])
  })

  t.test('of the system that somebody absent holds are not taken', async t => {
    const offered = [40_000, 40_000, 40_000, 40_001]
    const proxyPorts = new ProxyPorts(undefined, Math.random, async () => offered.shift())
    const with_ = deps({ proxyPorts })
    await portsFor(with_, a)
    t.strictSame(await portsFor(with_, b), [40_001])
    t.strictSame(await portsFor(with_, a, b, c), [
      40_000,
      40_001,
      'the system has no free port on 127.0.0.1',
    ])
  })

  t.test('are not guessed at without descriptors', async t => {
    const emfile = Object.assign(new Error('no'), { code: 'EMFILE' })
    const with_ = ports(2, () => Promise.reject(emfile))
    await t.rejects(portsFor(with_, a), { code: 'EMFILE' })
  })
})

t.test('at most 32 addresses are probed at the same time, each once', async t => {
  const vips = Array.from({ length: 100 }, (_, i) => clusterIp(`10.0.1.${i}`))
  const all = [servicePort('web', { vips }), servicePort('twin', { vips })]
  let now = 0
  let most = 0
  let probes = 0
  const localAddresses = new LocalAddresses(new FakeClock(), async () => {
    probes += 1
    now += 1
    most = Math.max(most, now)
    await turn()
    now -= 1
    return true
  })
  const result = await placed(deps({ mode: 'local', localAddresses }), ...all)
  t.equal(most, 32)
  t.equal(probes, 100)
  t.ok(result.every(({ capture }) => capture === 'local'))
})
