import t from 'tap'
import * as objects from '../../support/objects.ts'
import { DrainWatch } from '../../../src/kernel/ipvs/ipvs-proxier.ts'
import type { Loads } from '../../../src/kernel/ipvs/read-kernel.ts'
import type { EndpointSpec } from '../../../src/model/service.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { clusterIp, servicePort } from '../../support/service-ports.ts'
import {
  everywhere,
  type Fixture,
  fixture,
  forward,
  settings,
  settle,
  snapshotOf,
} from './fixture.ts'

const id = '-t 10.96.0.1:80'
const oneGoes = '10.244.1.2:8080'

const web = (...addresses: readonly string[]) =>
  servicePort('web', {
    vips: [clusterIp('10.96.0.1')],
    ...everywhere(forward(...addresses)),
  })

/** Of two endpoints one has gone, which still carries connections. */
const draining = async (): Promise<Fixture> => {
  const all = fixture()
  const { proxier, kernel } = all
  await proxier.sync(snapshotOf([web('10.244.1.1', '10.244.1.2')]), settings)
  carry(all, 3)
  await proxier.sync(snapshotOf([web('10.244.1.1')]), settings)
  kernel.takeWritten()
  return all
}

const carry = ({ kernel }: Fixture, connections: number): void => {
  const destination = kernel.servers.get(id)?.destinations.get(oneGoes)
  if (destination !== undefined) destination.connections = connections
}

const pass = async ({ clock }: Fixture, ms: number): Promise<void> => {
  clock.advance(ms)
  await settle()
}

t.test('an endpoint that goes gets nothing new, and stays while it is used', async t => {
  const all = await draining()
  t.strictSame(all.kernel.destinations(id), { '10.244.1.1:8080': 1, [oneGoes]: 0 })
  await pass(all, 10_000)
  await pass(all, 10_000)
  t.ok(oneGoes in all.kernel.destinations(id))
  carry(all, 0)
  await pass(all, 10_000)
  t.strictSame(all.kernel.takeWritten(), [`-d ${id} -r ${oneGoes}`])
  t.equal(all.clock.waiting, 0, 'and nothing is looked at any more')
})

t.test('an endpoint that comes back gets its weight again, and stays', async t => {
  const all = await draining()
  await all.proxier.sync(snapshotOf([web('10.244.1.1', '10.244.1.2')]), settings)
  t.strictSame(all.kernel.destinations(id), { '10.244.1.1:8080': 1, [oneGoes]: 1 })
  carry(all, 0)
  await pass(all, 20_000)
  t.ok(oneGoes in all.kernel.destinations(id))
})

t.test('one that came back in use is not looked at any more', async t => {
  const all = await draining()
  await all.proxier.sync(snapshotOf([web('10.244.1.1', '10.244.1.2')]), settings)
  await pass(all, 10_000)
  t.equal(all.clock.waiting, 0)
})

t.test('an endpoint that comes back and goes again drains anew', async t => {
  const all = await draining()
  await all.proxier.sync(snapshotOf([web('10.244.1.1', '10.244.1.2')]), settings)
  await all.proxier.sync(snapshotOf([web('10.244.1.1')]), settings)
  await pass(all, 10_000)
  t.ok(oneGoes in all.kernel.destinations(id))
  carry(all, 0)
  await pass(all, 10_000)
  t.notOk(oneGoes in all.kernel.destinations(id))
})

t.test('an endpoint that was taken out already can come back', async t => {
  const all = await draining()
  carry(all, 0)
  await pass(all, 10_000)
  await all.proxier.sync(snapshotOf([web('10.244.1.1', '10.244.1.2')]), settings)
  t.strictSame(all.kernel.takeWritten().slice(-1), [`-a ${id} -r ${oneGoes} -m -w 1`])
})

t.test('what drained before a full sync goes on draining after it', async t => {
  const all = await draining()
  all.proxier.forget()
  await all.proxier.sync(snapshotOf([web('10.244.1.1')]), settings)
  carry(all, 0)
  await pass(all, 10_000)
  t.notOk(oneGoes in all.kernel.destinations(id))
})

t.test('an endpoint of UDP goes at once', async t => {
  const { kernel, proxier } = fixture()
  const dns = (...addresses: readonly string[]) => [
    servicePort('dns', {
      protocol: 'UDP',
      vips: [clusterIp('10.96.0.10', 53)],
      ...everywhere(forward(...addresses)),
    }),
  ]
  await proxier.sync(snapshotOf(dns('10.244.1.1', '10.244.1.2')), settings)
  await proxier.sync(snapshotOf(dns('10.244.1.1')), settings)
  t.strictSame(kernel.destinations('-u 10.96.0.10:53'), { '10.244.1.1:8080': 1 })
})

t.test('one of UDP that terminates keeps its flows for as long as it serves', async t => {
  const all = fixture()
  const { kernel, proxier } = all
  const there = objects.endpoint('10.244.1.2')
  const dns = (ready: readonly string[], other: EndpointSpec) => [
    servicePort('dns', {
      protocol: 'UDP',
      vips: [clusterIp('10.96.0.10', 53)],
      ...everywhere(forward(...ready)),
      endpoints: [...forward('10.244.1.1').endpoints, { ...other, port: 8080 }],
    }),
  ]
  const ids = () => kernel.destinations('-u 10.96.0.10:53')
  await proxier.sync(snapshotOf(dns(['10.244.1.1', '10.244.1.2'], there)), settings)
  const leaving = { ...there, ...objects.terminating }
  await proxier.sync(snapshotOf(dns(['10.244.1.1'], leaving)), settings)
  t.strictSame(ids(), { '10.244.1.1:8080': 1, '10.244.1.2:8080': 0 })
  await pass(all, 20_000)
  t.strictSame(ids(), { '10.244.1.1:8080': 1, '10.244.1.2:8080': 0 }, 'also without any')
  proxier.forget()
  await proxier.sync(snapshotOf(dns(['10.244.1.1'], leaving)), settings)
  t.strictSame(ids(), { '10.244.1.1:8080': 1, '10.244.1.2:8080': 0 })
  const ended = { ...leaving, serving: false }
  await proxier.sync(snapshotOf(dns(['10.244.1.1'], ended)), settings)
  t.strictSame(ids(), { '10.244.1.1:8080': 1 })
})

t.test('without endpoints a virtual server stays, which refuses', async t => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([servicePort('web')]), settings)
  t.strictSame([...kernel.servers.keys()], ['-t 10.0.0.1:80'])
  t.strictSame(kernel.entries('KUBE-CLUSTER-IP'), ['10.0.0.1,tcp:80'])
})

t.test('a failure to take one out is told, and the next sync compares all', async t => {
  const all = await draining()
  carry(all, 0)
  all.kernel.broken.add('ipvsadm')
  await pass(all, 10_000)
  t.match(all.heard, [/^removing drained destinations \(IPv4\): ipvsadm: broken/])
  all.kernel.broken.clear()
  const { work } = await all.proxier.sync(snapshotOf([web('10.244.1.1')]), settings)
  t.equal(work, 'full')
})

t.test('after close nothing is touched', async t => {
  const all = await draining()
  carry(all, 0)
  all.proxier.close()
  await pass(all, 60_000)
  t.strictSame(all.kernel.takeWritten(), [])
})

t.test('what came back and went again during a look drains anew', async t => {
  const clock = new FakeClock()
  let tell: (loads: Loads) => void = () => {}
  const removed: unknown[] = []
  const watch = new DrainWatch({
    clock,
    loads: () => new Promise(resolve => (tell = resolve)),
    remove: async drained => void removed.push(...drained),
  })
  watch.add([{ id, destination: oneGoes }])
  clock.advance(10_000)
  watch.add([{ id, destination: oneGoes }])
  tell(new Map([[id, new Map([[oneGoes, { weight: 1, connections: 1 }]])]]))
  await settle()
  t.strictSame(removed, [])
  t.equal(clock.waiting, 1, 'it is looked at again')
  watch.close()
})
