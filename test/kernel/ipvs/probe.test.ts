import t from 'tap'
import { ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeKernel } from './fake-kernel.ts'
import { fixture } from './fixture.ts'

const probe = (kernel: FakeKernel, scheduler = '') =>
  fixture({ scheduler }, kernel).kind.probe('IPv4')

t.test('a probe does it, says by what, and leaves nothing', async t => {
  const kernel = new FakeKernel()
  const { usable, detail } = await probe(kernel)
  t.ok(usable)
  t.match(detail, /^ipvsadm 1\.8\.9, scheduler rr, iptables 1\.8\.9 \(nf_tables\)$/)
  t.equal(kernel.servers.size + kernel.sets.size, 0)
  for (const chains of Object.values(kernel.rules.tables))
    t.strictSame(
      [...chains.keys()].filter(name => name.startsWith('KUBE')),
      [],
    )
  const written = kernel.takeWritten()
  for (const type of ['hash:ip', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net'])
    t.ok(written.some(line => line.includes(` ${type} family inet`)))
  t.ok(written.some(line => /^ip link add usher-p[\da-f]{8} type dummy$/.test(line)))
})

t.test('a probe names the module that is missing, and why', async t => {
  const kernel = new FakeKernel()
  kernel.missingFiles.add('/proc/net/ip_vs')
  kernel.broken.add('modprobe')
  t.strictSame(await probe(kernel), {
    usable: false,
    detail: 'kernel module ip_vs: modprobe: broken',
  })
})

t.test('a setting without which nothing is masqueraded has to be writable', async t => {
  const kernel = new FakeKernel()
  kernel.conntrack = '0\n'
  t.ok((await probe(kernel)).usable)
  kernel.broken.add('test')
  t.strictSame(await probe(kernel), {
    usable: false,
    detail: 'net/ipv4/vs/conntrack is not 1, and can not be set from here',
  })
})

t.test('a probe loads the module that is missing, where it may', async t => {
  const kernel = new FakeKernel()
  kernel.missingFiles.add('/proc/net/ip_vs')
  kernel.missingFiles.add('/proc/sys/net/netfilter/nf_conntrack_max')
  const { usable } = await probe(kernel)
  t.ok(usable)
  const written = kernel.takeWritten()
  t.ok(written.includes('modprobe ip_vs'))
  t.ok(written.includes('modprobe nf_conntrack'))
})

t.test('a scheduler that the kernel does not have is named', async t => {
  const kernel = new FakeKernel()
  kernel.schedulers.delete('wrr')
  kernel.broken.add('modprobe')
  t.match(await probe(kernel, 'wrr'), {
    usable: false,
    detail: /^kernel module ip_vs_wrr: No scheduler\s*; modprobe: broken/,
  })
})

t.test('a probe that fails at any step leaves nothing', async t => {
  const whole = new FakeKernel()
  await probe(whole)
  for (let step = 1; step <= whole.calls; step += 1) {
    const kernel = new FakeKernel()
    kernel.killedCall = step
    await probe(kernel)
    const left = [...kernel.servers.keys(), ...kernel.sets.keys()]
    const own = left.filter(name => /PROBE|-t 198/.test(name))
    t.strictSame(own, [], `after step ${step}`)
  }
})

t.test('a scheduler that is none is no word for a program', async t => {
  const kernel = new FakeKernel()
  t.match(await probe(kernel, 'rr -f 1'), { usable: false, detail: /not the name/ })
  t.strictSame(kernel.takeWritten(), [])
})

t.test('what a tool lacks is told in its own words', async t => {
  for (const tool of ['ipvsadm', 'ipset', 'iptables', 'ip']) {
    const kernel = new FakeKernel()
    kernel.broken.add(tool)
    const { usable, detail } = await probe(kernel)
    t.notOk(usable)
    t.match(detail, new RegExp(`^(?:.*: )?${tool}\\S*: broken`))
    t.equal(kernel.servers.size + kernel.sets.size, 0)
  }
})

t.test('sets and chains of a probe that failed are gone', async t => {
  const kernel = new FakeKernel()
  kernel.rules.refused = new ToolError('no such match', 'failed', '')
  t.strictSame(await probe(kernel), { usable: false, detail: 'no such match' })
  t.equal(kernel.sets.size, 0)
  const away = /^-X KUBE-USHER-PROBE-/
  t.ok(kernel.takeWritten().some(line => away.test(line)))
})

t.test('chains are the mode’s own by whole names', t => {
  const { chain, ipvs } = fixture().kind.owns
  t.ok(ipvs)
  t.ok(chain('nat', 'KUBE-SERVICES'))
  t.ok(chain('mangle', 'KUBE-IPVS-OUT-FILTER'))
  t.notOk(chain('filter', 'KUBE-SERVICES'), 'the iptables mode has it there')
  t.notOk(chain('nat', 'KUBE-SVC-ABCDEFGHIJKLMNOP'))
  t.notOk(chain('nat', 'KUBE-NODEPORTS'))
  t.notOk(chain('raw', 'KUBE-SERVICES'))
  t.end()
})
