import t from 'tap'
import { clusterIp, servicePort } from '../../support/service-ports.ts'
import { FakeKernel } from './fake-kernel.ts'
import { everywhere, fixture, forward, settings, snapshotOf } from './fixture.ts'

const web = servicePort('web', {
  vips: [clusterIp('10.96.0.1')],
  ...everywhere(forward('10.244.1.1')),
})

/** With virtual servers of an earlier process, of a gone Service, and of somebody else. */
const usedKernel = (): FakeKernel => {
  const kernel = new FakeKernel()
  kernel.deviceIndex = 7
  kernel.addresses.add('10.96.0.1').add('10.96.0.9')
  const server = (id: string, weights: Record<string, number>): void =>
    void kernel.servers.set(id, {
      how: '-s wlc',
      destinations: new Map(
        Object.entries(weights).map(([name, weight]) => [
          name,
          { weight, connections: 1 },
        ]),
      ),
    })
  server('-t 10.96.0.1:80', { '10.244.1.1:8080': 0, '10.244.1.2:8080': 1 })
  server('-t 10.96.0.9:80', { '10.244.1.9:8080': 1 })
  server('-t 203.0.113.1:30999', {})
  server('-t 203.0.113.1:9999', { '192.0.2.1:80': 1 })
  kernel.sets.set('KUBE-NODE-PORT-TCP', {
    words: 'bitmap:port range 0-65535',
    entries: new Set(['30999']),
  })
  return kernel
}

t.test(
  'weights of an earlier process are put right, and what drained goes on',
  async t => {
    const { kernel, proxier } = fixture({}, usedKernel())
    await proxier.sync(snapshotOf([web]), settings)
    t.strictSame(kernel.destinations('-t 10.96.0.1:80'), {
      '10.244.1.1:8080': 1,
      '10.244.1.2:8080': 0,
    })
    t.equal(kernel.servers.get('-t 10.96.0.1:80')?.how, '-s rr', 'its scheduler too')
  },
)

t.test('what was made for Services goes, and what others made stays', async t => {
  const { kernel, proxier } = fixture({}, usedKernel())
  await proxier.sync(snapshotOf([web]), settings)
  t.strictSame([...kernel.servers.keys()], ['-t 10.96.0.1:80', '-t 203.0.113.1:9999'])
  t.strictSame([...kernel.addresses], ['10.96.0.1'])
  t.strictSame(kernel.entries('KUBE-NODE-PORT-TCP'), [])
})

t.test('virtual servers in excludeCIDRs stay', async t => {
  const { kernel, proxier } = fixture({ excludeCidrs: ['10.96.0.8/30'] }, usedKernel())
  await proxier.sync(snapshotOf([web]), settings)
  t.strictSame(
    [...kernel.servers.keys()],
    ['-t 10.96.0.1:80', '-t 10.96.0.9:80', '-t 203.0.113.1:9999'],
  )
})

t.test('a set with less room is replaced without ever being empty', async t => {
  const kernel = new FakeKernel()
  const words = 'hash:ip,port family inet hashsize 1024 maxelem 65536'
  kernel.sets.set('KUBE-CLUSTER-IP', { words, entries: new Set(['10.96.0.1,tcp:80']) })
  const { proxier } = fixture({}, kernel)
  await proxier.sync(snapshotOf([web]), settings)
  const lines = kernel.takeWritten()
  const at = (line: string): number => lines.indexOf(line)
  t.ok(at('add KUBE-IPVS-SPARE 10.96.0.1,tcp:80') > 0)
  t.ok(
    at('swap KUBE-IPVS-SPARE KUBE-CLUSTER-IP') >
      at('add KUBE-IPVS-SPARE 10.96.0.1,tcp:80'),
  )
  t.match(kernel.sets.get('KUBE-CLUSTER-IP')?.words, /maxelem 1048576$/)
  t.notOk(kernel.sets.has('KUBE-IPVS-SPARE'))
})

t.test('what a process left half-way of replacing a set is no obstacle', async t => {
  const kernel = new FakeKernel()
  const words = 'hash:ip,port family inet hashsize 1024 maxelem 65536'
  kernel.sets.set('KUBE-CLUSTER-IP', { words, entries: new Set(['10.96.0.7,tcp:80']) })
  const left = { words: 'hash:ip family inet hashsize 1024 maxelem 65536' }
  kernel.sets.set('KUBE-IPVS-SPARE', { ...left, entries: new Set(['10.96.0.3']) })
  await fixture({}, kernel).proxier.sync(snapshotOf([web]), settings)
  t.strictSame(kernel.entries('KUBE-CLUSTER-IP'), ['10.96.0.1,tcp:80'])
  t.match(kernel.sets.get('KUBE-CLUSTER-IP')?.words, /^hash:ip,port .*maxelem 1048576$/)
  t.notOk(kernel.sets.has('KUBE-IPVS-SPARE'))
})

t.test('sets of another type or family are made anew', async t => {
  const kernel = new FakeKernel()
  kernel.sets.set('KUBE-LOOP-BACK', { words: 'list:set size 8', entries: new Set() })
  const words = 'hash:ip,port family inet6 hashsize 1024 maxelem 1048576'
  kernel.sets.set('KUBE-CLUSTER-IP', { words, entries: new Set() })
  await fixture({}, kernel).proxier.sync(snapshotOf([web]), settings)
  t.match(kernel.sets.get('KUBE-LOOP-BACK')?.words, /^hash:ip,port,ip family inet /)
  t.match(kernel.sets.get('KUBE-CLUSTER-IP')?.words, /^hash:ip,port family inet /)
})

t.test('a set of another type that rules use is a failure that names it', async t => {
  const kernel = new FakeKernel()
  kernel.sets.set('KUBE-LOOP-BACK', { words: 'list:set size 8', entries: new Set() })
  kernel.usedSets.add('KUBE-LOOP-BACK')
  await t.rejects(
    fixture({}, kernel).proxier.sync(snapshotOf([web]), settings),
    /KUBE-LOOP-BACK is of type list:set .* does not go: it is in use/,
  )
})

t.test('jumps of the iptables mode into chains that are ipvs’ now go', async t => {
  const { kernel, proxier } = fixture()
  const old =
    '-m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL'
  const foreign = '-s 192.0.2.0/24 -m comment --comment "mine" -j KUBE-PROXY-FIREWALL'
  kernel.rules.chain('filter', 'OUTPUT').push(old, foreign, '-j ACCEPT')
  kernel.rules.tables['filter']?.set('KUBE-PROXY-FIREWALL', ['-j DROP'])
  await proxier.sync(snapshotOf([web]), settings)
  t.strictSame(kernel.rules.chain('filter', 'OUTPUT'), [foreign, '-j ACCEPT'])
  t.notOk(kernel.rules.chain('filter', 'KUBE-PROXY-FIREWALL').includes('-j DROP'))
})

t.test('a jump that is there twice is there once afterwards', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const rules = kernel.rules.chain('nat', 'PREROUTING')
  rules.push(rules[0] ?? '')
  proxier.forget()
  await proxier.sync(snapshotOf([web]), settings)
  t.equal(rules.length, 1)
})

t.test('an address that a capture still has is put on kube-ipvs0 too', async t => {
  const { kernel, proxier } = fixture()
  kernel.ofCapture.add('10.96.0.1')
  kernel.ofOldCapture.add('10.96.0.2')
  const second = servicePort('second', { vips: [clusterIp('10.96.0.2')] })
  await proxier.sync(snapshotOf([web, second]), settings)
  t.strictSame(
    [...kernel.addresses],
    ['10.96.0.1', '10.96.0.2'],
    'they go with the capture',
  )
})

const orderOf = (kernel: FakeKernel): readonly string[] =>
  kernel
    .takeWritten()
    .flatMap(line => (/^-A (?:KUBE-SERVICES|-t)/.exec(line) ?? []).slice(0, 1))
    .filter((verb, at, all) => verb !== all[at - 1])

t.test('what is to be masqueraded is known before the first virtual server', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  t.strictSame(orderOf(kernel), ['-A KUBE-SERVICES', '-A -t'])
})

t.test('rules that lead VIPs elsewhere hold until virtual servers are there', async t => {
  const { kernel, proxier } = fixture()
  const jump = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  kernel.rules.tables['nat']?.set('KUBE-SERVICES', ['-d 10.96.0.1/32 -j KUBE-SVC-A'])
  kernel.rules.chain('nat', 'PREROUTING').push(jump)
  await proxier.sync(snapshotOf([web]), settings)
  t.strictSame(orderOf(kernel), ['-A -t', '-A KUBE-SERVICES'])
})
