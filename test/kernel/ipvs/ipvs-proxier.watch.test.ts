import t from 'tap'
import { clusterIp, servicePort } from '../../support/service-ports.ts'
import { ToolError } from '../../../src/kernel/run-tool.ts'
import type { FakeKernel } from './fake-kernel.ts'
import { everywhere, fixture, forward, settings, settle, snapshotOf } from './fixture.ts'

const web = servicePort('web', {
  vips: [clusterIp('10.96.0.1')],
  ...everywhere(forward('10.244.1.1')),
})

type Damage = (kernel: FakeKernel) => void

const damages: Readonly<Record<string, readonly [Damage, RegExp]>> = {
  'a virtual server': [
    kernel => void kernel.servers.delete('-t 10.96.0.1:80'),
    /virtual server -t 10\.96\.0\.1:80 is gone/,
  ],
  'a destination': [
    kernel => kernel.servers.get('-t 10.96.0.1:80')?.destinations.clear(),
    /destination 10\.244\.1\.1:8080/,
  ],
  'a jump': [
    kernel => void kernel.rules.chain('nat', 'OUTPUT').pop(),
    /jump from OUTPUT to KUBE-SERVICES is gone/,
  ],
  'the rules of a chain': [
    kernel => void kernel.rules.tables['filter']?.set('KUBE-IPVS-FILTER', []),
    /chain KUBE-IPVS-FILTER of table filter has 0 rules/,
  ],
  'a chain': [
    kernel => void kernel.rules.tables['mangle']?.delete('KUBE-IPVS-OUT-FILTER'),
    /chain KUBE-IPVS-OUT-FILTER of table mangle is gone/,
  ],
  'an entry of a set': [
    kernel => kernel.sets.get('KUBE-CLUSTER-IP')?.entries.clear(),
    /KUBE-CLUSTER-IP has 0 entries instead of 1/,
  ],
  'a set': [
    kernel => void kernel.sets.delete('KUBE-NODE-PORT-UDP'),
    /KUBE-NODE-PORT-UDP is gone/,
  ],
  'an address': [kernel => kernel.addresses.clear(), /address 10\.96\.0\.1/],
  'the device, and made it anew': [
    kernel => void (kernel.deviceIndex += 1),
    /device kube-ipvs0/,
  ],
}

for (const [what, [damage, message]] of Object.entries(damages))
  t.test(`that somebody took ${what} is noticed within 5 s`, async t => {
    const { kernel, clock, proxier } = fixture()
    await proxier.sync(snapshotOf([web]), settings)
    const heard: string[] = []
    const stop = proxier.watch(said => void heard.push(said))
    clock.advance(4000)
    await settle()
    t.strictSame(heard, [], 'nothing is wrong yet')
    try {
      damage(kernel)
    } catch {
      t.fail('the fake kernel has no such thing')
    }
    clock.advance(4500)
    await settle()
    t.match(heard, [message])
    stop()
    clock.advance(10_000)
    await settle()
    t.equal(heard.length, 1, 'and not after it was stopped')
  })

t.test('that somebody holds the lock is no damage', async t => {
  const { kernel, clock, proxier, heard } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const damaged: string[] = []
  const stop = proxier.watch(said => void damaged.push(said))
  const said = 'Another app is currently holding the xtables lock.'
  kernel.rules.refused = new ToolError(said, 'failed', said)
  clock.advance(4000)
  await settle()
  t.strictSame(damaged, [])
  t.match(heard, [/^looking at the rules \(IPv4\): Another app/])
  stop()
})

t.test('once it is not watched nothing is looked at any more', async t => {
  const { clock, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const stop = proxier.watch(() => {})
  stop()
  proxier.close()
  t.equal(clock.waiting, 0)
})

t.test('what a sync is about to change is no damage', async t => {
  const { kernel, clock, proxier } = fixture()
  await proxier.sync(snapshotOf([web]), settings)
  const heard: string[] = []
  const stop = proxier.watch(said => void heard.push(said))
  let resolve = (): void => {}
  kernel.held = new Promise(settled => (resolve = settled))
  const synced = proxier.sync(snapshotOf([]), settings)
  await settle()
  clock.advance(4000)
  await settle()
  resolve()
  await synced
  clock.advance(4000)
  await settle()
  t.strictSame(heard, [])
  stop()
})
