import t from 'tap'
import { clusterIp, nodePort, servicePort } from '../../support/service-ports.ts'
import { FakeKernel } from './fake-kernel.ts'
import { everywhere, fixture, forward, settings, settle, snapshotOf } from './fixture.ts'

const web = servicePort('web', {
  vips: [clusterIp('10.96.0.1'), nodePort('0.0.0.0')],
  ...everywhere(forward('10.244.1.1', '10.244.1.2')),
})

t.test('a first sync makes virtual servers, sets, addresses and rules', async t => {
  const { kernel, proxier } = fixture()
  const { work } = await proxier.sync(snapshotOf([web]), settings)
  t.equal(work, 'full')
  const both = { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 }
  t.strictSame(kernel.destinations('-t 10.96.0.1:80'), both)
  t.strictSame(kernel.destinations('-t 203.0.113.1:30080'), both)
  t.equal(kernel.servers.size, 2)
  t.strictSame(kernel.entries('KUBE-CLUSTER-IP'), ['10.96.0.1,tcp:80'])
  t.strictSame(kernel.entries('KUBE-NODE-PORT-TCP'), ['30080'])
  t.strictSame(kernel.entries('KUBE-IPVS-IPS'), ['10.96.0.1'])
  t.strictSame([...kernel.addresses], ['10.96.0.1'])
  t.match(kernel.rules.chain('nat', 'PREROUTING')[0], /-j KUBE-SERVICES$/)
  t.ok(kernel.sysctls.includes('net/ipv4/vs/conntrack=1'))
})

t.test('a sync of what is there already runs no tool', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const before = kernel.calls
  const { work, rules } = await proxier.sync(snapshotOf([web]), { ...settings })
  t.equal(work, 'nothing')
  t.equal(kernel.calls, before)
  t.equal(rules?.nat.written, 0)
  t.ok(rules && rules.nat.total > 0)
})

t.test('a full sync of what is there already writes rules only', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  kernel.takeWritten()
  proxier.forget()
  const { work } = await proxier.sync(snapshotOf([web]), settings)
  t.equal(work, 'full')
  const others = kernel
    .takeWritten()
    .filter(line => !/^([*:]|-[AI] [A-Z]|COMMIT)/.test(line))
  t.strictSame(others, [])
})

t.test('one change among 10 000 Services writes a few lines', async t => {
  const many = Array.from({ length: 10_000 }, (_, i) => {
    const [high, low] = [i >> 8, i & 255]
    return servicePort(`s${i}`, {
      vips: [clusterIp(`10.96.${high}.${low}`)],
      ...everywhere(forward(`10.244.${high}.${low}`, `10.245.${high}.${low}`)),
    })
  })
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf(many), settings)
  kernel.takeWritten()
  const target = everywhere(forward('10.244.0.5', '10.246.0.1'))
  const changed = many.with(
    5,
    servicePort('s5', { vips: many[5]?.vips ?? [], ...target }),
  )
  const { work } = await proxier.sync(snapshotOf(changed), settings)
  t.equal(work, 'partial')
  t.strictSame(kernel.takeWritten(), [
    'add KUBE-LOOP-BACK 10.246.0.1,tcp:8080,10.246.0.1',
    'del KUBE-LOOP-BACK 10.245.0.5,tcp:8080,10.245.0.5',
    '-a -t 10.96.0.5:80 -r 10.246.0.1:8080 -m -w 1',
    '-e -t 10.96.0.5:80 -r 10.245.0.5:8080 -m -w 0',
  ])
})

t.test('a Service that goes takes all of its own with it', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  await proxier.sync(snapshotOf([]), settings)
  t.equal(kernel.servers.size, 0)
  t.equal(kernel.addresses.size, 0)
  t.strictSame(
    [...kernel.sets.values()].filter(({ entries }) => entries.size > 0),
    [],
  )
})

t.test('an address that two ServicePorts have stays with the last of them', async t => {
  const { kernel, proxier } = fixture()
  const other = servicePort('other', { vips: [clusterIp('10.96.0.1', 443)] })
  await proxier.sync(snapshotOf([web, other]), settings)
  await proxier.sync(snapshotOf([other]), settings)
  t.strictSame([...kernel.addresses], ['10.96.0.1'])
  await proxier.sync(snapshotOf([]), settings)
  t.equal(kernel.addresses.size, 0)
})

t.test('an address that another device has is not put on kube-ipvs0', async t => {
  const { kernel, proxier } = fixture()
  kernel.elsewhere.add('192.0.2.7')
  const vip = { kind: 'ExternalIP', address: '192.0.2.7', port: 80 } as const
  await proxier.sync(snapshotOf([servicePort('web', { vips: [vip] })]), settings)
  t.ok(kernel.servers.has('-t 192.0.2.7:80'))
  t.equal(kernel.addresses.size, 0)
  t.strictSame(kernel.entries('KUBE-IPVS-IPS'), [], 'else its other ports were refused')
})

t.test('a VIP on an address of the node comes before a node port there', async t => {
  const { kernel, proxier } = fixture()
  const vip = { kind: 'ExternalIP', address: '203.0.113.1', port: 30080 } as const
  const own = servicePort('own', { vips: [vip], ...everywhere(forward('10.244.9.9')) })
  await proxier.sync(snapshotOf([own, web]), settings)
  t.strictSame(kernel.destinations('-t 203.0.113.1:30080'), { '10.244.9.9:8080': 1 })
  await proxier.sync(snapshotOf([web]), settings)
  t.ok('10.244.1.1:8080' in kernel.destinations('-t 203.0.113.1:30080'))
})

t.test('node ports are on the addresses that --nodeport-addresses names', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), {
    ...settings,
    nodeAddresses: ['203.0.113.1', '198.51.100.1', '127.0.0.1', '2001:db8::1'],
    nodePortCidrs: ['198.51.100.0/24', '127.0.0.0/8'],
  })
  const ids = [...kernel.servers.keys()].filter(id => id.endsWith(':30080'))
  t.strictSame(ids, ['-t 198.51.100.1:30080'])
})

t.test('settings that change make a full sync', async t => {
  const { proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const { work } = await proxier.sync(snapshotOf([web]), {
    ...settings,
    masqueradeAll: true,
  })
  t.equal(work, 'full')
})

t.test('after a tool has failed, the next sync compares all', async t => {
  const { kernel, proxier, heard } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  kernel.broken.add('ipvsadm')
  await t.rejects(proxier.sync(snapshotOf([]), settings), { code: 'ERR_TOOL' })
  t.strictSame(heard, ['restore failed: IPv4 partial'])
  kernel.broken.clear()
  const { work } = await proxier.sync(snapshotOf([]), settings)
  t.equal(work, 'full')
  t.equal(kernel.servers.size, 0)
})

t.test('a sync that is ended at any step is made good by the next one', async t => {
  const all = [
    web,
    servicePort('dns', {
      protocol: 'UDP',
      vips: [clusterIp('10.96.0.10', 53)],
      ...everywhere(forward('10.244.1.3')),
    }),
  ]
  const whole = fixture()
  await whole.proxier.sync(snapshotOf(all), settings)
  const stateOf = ({ servers, sets, addresses, rules }: FakeKernel) => ({
    servers,
    sets,
    addresses,
    tables: rules.tables,
  })
  let ended = 0
  for (let step = 1; step <= whole.kernel.calls; step += 1) {
    const kernel = new FakeKernel()
    kernel.killedCall = step
    const { proxier } = fixture({}, kernel)
    await proxier.sync(snapshotOf(all), settings).catch(() => void (ended += 1))
    await proxier.sync(snapshotOf(all), settings)
    t.strictSame(stateOf(kernel), stateOf(whole.kernel), `after step ${step}`)
  }
  t.ok(ended > 8)
})

t.test('what is under way when it closes goes no further', async t => {
  const { kernel, proxier, heard } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  kernel.takeWritten()
  let resolve = (): void => {}
  kernel.held = new Promise(settled => (resolve = settled))
  const synced = proxier.sync(snapshotOf([]), settings)
  await settle()
  proxier.close()
  resolve()
  await t.rejects(synced, /the ipvs mode has ended/)
  t.strictSame(
    kernel.takeWritten().filter(line => !/^del KUBE-(LOOP|IPVS)|^-D -t/.test(line)),
    [],
  )
  t.ok(kernel.addresses.has('10.96.0.1'))
  t.strictSame(heard, [])
})

t.test(
  'a line that ipvsadm could not do is a failure, though it ends with 0',
  async t => {
    const { kernel, proxier } = fixture()
    await proxier.sync(snapshotOf([web]), settings)
    kernel.servers.delete('-t 10.96.0.1:80')
    await t.rejects(proxier.sync(snapshotOf([]), settings), /No such service/)
  },
)

t.test('health-check ports are let in', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([], 'IPv4', [32000]), settings)
  t.strictSame(kernel.entries('KUBE-HEALTH-CHECK-NODE-PORT'), ['32000'])
  await proxier.sync(snapshotOf([], 'IPv4', [32001]), settings)
  t.strictSame(kernel.entries('KUBE-HEALTH-CHECK-NODE-PORT'), ['32001'])
})
