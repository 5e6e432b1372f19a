import t from 'tap'
import type { Capture } from '../../../src/capture/capture.ts'
import { LocalAddresses } from '../../../src/capture/local-addresses.ts'
import {
  LocalCapture,
  type LocalCaptureDeps,
} from '../../../src/capture/local/local-capture.ts'
import type { HostAddresses } from '../../../src/kernel/host-addresses/host-addresses.ts'
import type { ServicePort, Target, Vip } from '../../../src/model/snapshot.ts'
import { type Cidr, cidrContains, parseCidr } from '../../../src/util/cidr.ts'
import { endpoint } from '../../support/objects.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { clusterIp, nodePort, servicePort } from '../../support/service-ports.ts'

/** A host to which addresses are given, all but those that `refuse` matches. */
class FakeHost implements HostAddresses {
  readonly events: string[] = []
  has: readonly string[] = []
  #blocks: readonly Cidr[] = []
  readonly #taken: string[] = []
  refuse = /^never$/
  #damaged: ((what: string) => void) | undefined

  async sync(wanted: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const had = wanted.filter(one => !this.refuse.test(one))
    const [before, after] = [new Set(this.has), new Set(had)]
    const come = had.filter(one => !before.has(one)).map(one => `+${one}`)
    const gone = this.has.filter(one => !after.has(one)).map(one => `-${one}`)
    this.events.push(...come, ...gone)
    this.#set(had)
    const refused = wanted.filter(one => this.refuse.test(one))
    return new Map(refused.map(one => [one, 'Operation not permitted']))
  }

  watch(damaged: (what: string) => void): () => void {
    this.#damaged = damaged
    return () => (this.#damaged = undefined)
  }

  async missing() {
    return this.#taken.splice(0)
  }

  async remove(): Promise<void> {
    this.events.push('removed')
    this.#set([])
  }

  async probe() {
    return { usable: true, detail: '' }
  }

  /** Somebody takes an address away. */
  take(cidr: string): void {
    this.#taken.push(cidr)
    this.#set(this.has.filter(one => one !== cidr))
  }

  /** That is seen. */
  see(cidr: string): void {
    this.#damaged?.(`taken away: ${cidr}`)
  }

  #set(has: readonly string[]): void {
    this.has = has
    this.#blocks = has.flatMap(one => parseCidr(one) ?? [])
  }

  get isWatched(): boolean {
    return this.#damaged !== undefined
  }

  /** Whether a socket could be bound to it. */
  readonly canBind = async (address: string): Promise<boolean> =>
    address === '0.0.0.0' ||
    address.startsWith('127.') ||
    this.has.includes(`${address}/128`) ||
    this.#blocks.some(block => cidrContains(block, address))
}

const fixture = (over: Partial<LocalCaptureDeps> = {}) => {
  const host = new FakeHost()
  const clock = new FakeClock()
  const repairs: string[][] = []
  const resyncs = { count: 0 }
  const capture: Capture = new LocalCapture({
    hostAddresses: host,
    localAddresses: new LocalAddresses(clock, host.canBind),
    serviceCidrs: () => ['10.96.0.0/12'],
    keepRules: false,
    repaired: (what, error) => repairs.push([what, error]),
    clock,
    resync: () => void (resyncs.count += 1),
    ...over,
  })
  return { host, clock, capture, repairs, resyncs, place: placer(capture) }
}

/** How each VIP is served after a `place`, and what was given back in `steer`. */
const placer =
  (capture: Capture) =>
  async (...servicePorts: ServicePort[]): Promise<string[]> => {
    const placements = await capture.place(servicePorts)
    await capture.steer(placements, [])
    return placements.flatMap(({ vips }) =>
      vips.map(({ capture: how, binds, reason }) =>
        [how, ...binds.map(({ address, port }) => `${address} ${port}`), reason]
          .filter(Boolean)
          .join(', '),
      ),
    )
  }

const external = (address: string): Vip => ({ kind: 'ExternalIP', address, port: 80 })
const balanced = (address: string): Vip => ({ kind: 'LoadBalancerIP', address, port: 80 })

t.test('an address that means another host does not become one of this', async t => {
  const elsewhere = new Map([['198.51.100.1', 'where this node reaches the API server']])
  const { host, capture, place } = fixture({ elsewhere: () => elsewhere })
  const vips = [
    clusterIp('10.97.0.1'),
    external('198.51.100.1'),
    balanced('198.51.100.2'),
  ]
  const refused = 'not captured, not an address of this host; it is '
  t.match(await place(servicePort('web', { vips })), [
    /^local, /,
    `${refused}where this node reaches the API server, which would be out of reach; give the Service another`,
    /^local, /,
  ])
  t.match(capture.problems?.(), [{ object: 'capture local', field: '198.51.100.1' }])
  elsewhere.set('198.51.100.2', 'an address of Node n2').set('10.97.0.1', 'a resolver')
  t.match(await place(servicePort('web', { vips })), [
    /^local, /,
    /API server/,
    `${refused}an address of Node n2, which would be out of reach; give the Service another`,
  ])
  t.equal(host.events.at(-1), '-198.51.100.2/32', 'also when that is learnt later')
})

t.test('VIPs become addresses of this host', async t => {
  const vips = [
    clusterIp('10.97.0.1'),
    clusterIp('10.112.0.1'),
    external('198.51.100.1'),
    balanced('127.1.2.3'),
    nodePort('0.0.0.0'),
  ]
  const { host, place } = fixture()
  t.strictSame(await place(servicePort('web', { vips })), [
    'local, 10.97.0.1 80',
    'local, 10.112.0.1 80',
    'local, 198.51.100.1 80',
    'local, 127.1.2.3 80',
    'local, 127.0.0.1 30080, 192.0.2.2 30080',
  ])
  t.strictSame(
    host.events,
    ['+10.96.0.0/12', '+10.112.0.1/32', '+198.51.100.1/32'],
    'a range, and those outside of it; not the loopback addresses and wildcards',
  )
})

t.test('IPv6 addresses are had one by one', async t => {
  const { host, capture, place } = fixture({ serviceCidrs: () => ['fd00::/108'] })
  host.refuse = /^fd00::\/108$/
  const vips = [clusterIp('fd00::7')]
  t.strictSame(await place(servicePort('web', { family: 'IPv6', vips })), [
    'local, fd00::7 80',
  ])
  t.strictSame(host.has, ['fd00::7/128'])
  t.strictSame(capture.problems(), [], 'which is nothing to tell')
})

t.test('an address that can not be had', async t => {
  const { host, capture, place } = fixture()
  const web = servicePort('web', {
    vips: [clusterIp('10.97.0.1'), external('192.0.2.7')],
  })
  host.refuse = /^192/

  t.test('leaves its VIP uncaptured, with what would help', async t => {
    t.strictSame(await place(web), [
      'local, 10.97.0.1 80',
      "not captured, not an address of this host; it can't be made one: Operation not permitted; run it as root, or with the capability NET_ADMIN",
    ])
    t.match(capture.problems(), [
      { object: 'capture local', message: /^1 of 1 VIPs .* 192.0.2.7.32: Operation/ },
    ])
  })

  t.test('is listened on as soon as it can be had', async t => {
    host.refuse = /^never$/
    t.strictSame(await place(web), ['local, 10.97.0.1 80', 'local, 192.0.2.7 80'])
  })
})

t.test('a range that can not be had is had address by address', async t => {
  const { host, capture, place } = fixture()
  host.refuse = /^10\.96\.0\.0/
  const web = servicePort('web', { vips: [clusterIp('10.97.0.1')] })
  t.strictSame(await place(web), ['local, 10.97.0.1 80'])
  t.strictSame(host.has, ['10.97.0.1/32'])
  t.match(capture.problems(), [
    { object: 'capture local', field: '10.96.0.0/12', message: /address by address/ },
  ])

  t.test('until it can be had', async t => {
    host.refuse = /^never$/
    t.strictSame(await place(web), ['local, 10.97.0.1 80'])
    t.strictSame(host.has, ['10.96.0.0/12'])
    t.strictSame(capture.problems(), [])
  })
})

t.test('addresses go when their listeners are closed, not before', async t => {
  const { host, capture, place } = fixture()
  const one = servicePort('one', { vips: [external('192.0.2.1')] })
  const two = servicePort('two', { vips: [external('192.0.2.2')] })
  const both = servicePort('both', { vips: [external('192.0.2.2')] })
  await place(one, two, both)
  host.events.length = 0
  const placements = await capture.place([both])
  t.strictSame(host.events, [], 'the relay listens there still')
  await capture.steer(placements, [])
  t.strictSame(host.events, ['-192.0.2.1/32'], 'the other one is of use to somebody')
  await place(one, both)
  t.strictSame(host.events, ['-192.0.2.1/32', '+192.0.2.1/32'])
})

t.test('a change of service CIDRs moves nothing that is in use', async t => {
  let cidrs = ['10.96.0.0/16']
  const { host, place } = fixture({ serviceCidrs: () => cidrs })
  const web = servicePort('web', { vips: [clusterIp('10.97.0.1')] })
  await place(web)
  cidrs = ['10.96.0.0/16', '10.97.0.0/16']
  t.strictSame(await place(web), ['local, 10.97.0.1 80'])
  t.strictSame(host.events, [
    '+10.96.0.0/16',
    '+10.97.0.1/32',
    '+10.97.0.0/16',
    '-10.97.0.1/32',
  ])
})

t.test('what somebody takes away is put back by a sync that follows at once', async t => {
  const { host, capture, place, repairs, resyncs } = fixture()
  const web = servicePort('web', { vips: [external('192.0.2.1')] })
  await place(web)
  host.take('192.0.2.1/32')
  host.see('192.0.2.1/32')
  t.equal(resyncs.count, 1)
  t.strictSame(await place(web), ['local, 192.0.2.1 80'])
  t.strictSame(repairs, [['taken away: 192.0.2.1/32', '']])
  t.ok(host.has.includes('192.0.2.1/32'))
  host.refuse = /^10/
  host.take('10.96.0.0/12')
  host.see('10.96.0.0/12')
  await place(web)
  t.strictSame(repairs[1], [
    'taken away: 10.96.0.0/12',
    '10.96.0.0/12: Operation not permitted',
  ])
  await capture.close()
  t.notOk(host.isWatched)
})

t.test("an endpoint's address is not taken, though a Service asks for it", async t => {
  const { host, place } = fixture()
  const pod = { ...endpoint('10.244.0.9'), port: 8080 }
  const vips = [external('10.244.0.9'), external('192.0.2.1')]
  const [greedy, other] = await place(
    servicePort('greedy', { vips }),
    servicePort('web', { vips: [], endpoints: [pod] }),
  )
  t.match(greedy, /^not captured, .*address of an endpoint/)
  t.match(other, /^local, 192\.0\.2\.1/)
  t.notOk(host.has.includes('10.244.0.9/32'))
  await place(servicePort('greedy', { vips }))
  t.ok(host.has.includes('10.244.0.9/32'), 'with the endpoint gone it is')
})

t.test('what could never be had is no part of what was taken away', async t => {
  const { host, repairs, place } = fixture()
  host.refuse = /203/
  const vips = [external('192.0.2.1'), external('203.0.113.1')]
  const web = servicePort('web', { vips })
  await place(web)
  host.take('192.0.2.1/32')
  host.see('192.0.2.1/32')
  await place(web)
  t.strictSame(repairs, [['taken away: 192.0.2.1/32', '']])
})

t.test('a sync that finds an address taken away puts it back itself', async t => {
  const { host, clock, capture, place, repairs } = fixture()
  const web = servicePort('web', { vips: [external('192.0.2.1')] })
  await place(web)
  host.take('192.0.2.1/32')
  clock.advance(30_000)
  t.strictSame(await place(web), ['local, 192.0.2.1 80'])
  host.take('192.0.2.1/32')
  clock.advance(30_000)
  host.sync = () => Promise.resolve(new Map<string, string>())
  t.match(await place(web), [/^not captured/])
  t.match(capture.problems(), [{ field: '192.0.2.1', message: /^1 of the VIPs/ }])
  host.sync = FakeHost.prototype.sync.bind(host)
  t.strictSame(await place(web), ['local, 192.0.2.1 80'])
  t.strictSame(capture.problems(), [])
  t.equal(repairs.length, 1)
})

t.test('what is found gone while addresses are set is reported, too', async t => {
  const { host, place, repairs } = fixture()
  const web = servicePort('web', { vips: [external('192.0.2.1')] })
  await place(web)
  const sync = host.sync.bind(host)
  host.sync = async wanted => {
    host.see('192.0.2.1/32')
    return sync(wanted)
  }
  await place(servicePort('web', { vips: [external('192.0.2.2')] }))
  host.sync = sync
  await place(web)
  t.match(repairs.at(-1), ['taken away: 192.0.2.1/32', ''])
})

t.test('an end gives all back, unless that is to stay', async t => {
  const web = servicePort('web')
  const end = async (over: Partial<LocalCaptureDeps>, isUsed: boolean) => {
    const { host, capture, place } = fixture(over)
    if (isUsed) await place(web)
    host.events.length = 0
    await capture.close()
    return host.events
  }
  t.strictSame(await end({}, true), ['removed'])
  t.strictSame(await end({ keepRules: true }, true), [])
  t.strictSame(await end({}, false), [], 'what was never used is not touched')
})

t.test('what local can not do is said of the VIP', async t => {
  const away: Target = { verdict: 'drop', endpoints: [] }
  const { place } = fixture()
  const silence = /because dropping them needs kernel rules/
  const web = servicePort('web', {
    vips: [clusterIp('10.97.0.1'), external('192.0.2.1'), balanced('192.0.2.2')],
    external: away,
    externalFromNode: away,
  })
  const ranged = servicePort('ranged', {
    vips: [clusterIp('10.97.0.2'), balanced('192.0.2.3')],
    sourceRanges: ['203.0.113.0/24'],
  })
  const [first, second, third, fourth, fifth] = await place(web, ranged)
  t.equal(first, 'local, 10.97.0.1 80')
  t.match(second, /policy is Local: clients are refused/)
  t.match(third, silence)
  t.equal(fourth, 'local, 10.97.0.2 80')
  t.match(fifth, /outside of loadBalancerSourceRanges are reset/)
})

t.test('many IPv6 addresses are told to slow this host down', async t => {
  const { capture, place } = fixture()
  const vips = (count: number) =>
    Array.from({ length: count }, (_, i) => clusterIp(`fd00::${i.toString(16)}`))
  await place(servicePort('web', { family: 'IPv6', vips: vips(499) }))
  t.strictSame(capture.problems(), [])
  await place(servicePort('web', { family: 'IPv6', vips: vips(600) }))
  t.match(capture.problems(), [{ field: 'IPv6', message: /ip_nonlocal_bind=1/ }])
})
