import t from 'tap'
import type { Probe } from '../../../src/kernel/probe.ts'
import type { ProxierKind } from '../../../src/kernel/proxier.ts'
import { RuleMetrics } from '../../../src/observe/rule-metrics.ts'
import { kernelStep } from '../../../src/proxy/kernel/kernel-step.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { FakeProxier } from '../../support/fake-proxier.ts'
import { kernelOptions } from './kernel-options.ts'
import { recordingLog } from '../../support/recording-log.ts'

t.test('a mode whose tools hang at the start is named in the log', async t => {
  const clock = new FakeClock()
  const said: string[] = []
  const log = recordingLog(said)
  let answer: (probe: Probe) => void = () => {}
  const kind: ProxierKind = {
    name: 'iptables',
    probe: () => new Promise(resolve => (answer = resolve)),
    proxier: () => new FakeProxier(),
    owns: { chain: () => true, nftablesTable: () => false, ipvs: false },
  }
  const step = kernelStep(
    'iptables',
    {
      clock,
      log,
      version: '',
      options: kernelOptions(),
      facts: {
        nodeName: '',
        podCidrs: () => [],
        serviceCidrs: () => [],
        nodePortCidrs: () => undefined,
      },
      metrics: new RuleMetrics(),
      resync: () => {},
    },
    () => kind,
  )
  const probing = step.probe()
  clock.advance(9000)
  t.strictSame(said, [])
  clock.advance(1000)
  t.strictSame(said, ['testing this mode is taking a long time'])
  const no = { usable: false, detail: 'it hangs' }
  answer(no)
  await new Promise(resolve => setImmediate(resolve))
  answer(no)
  t.strictSame(await probing, { IPv4: no, IPv6: no })
  clock.advance(60_000)
  t.equal(said.length, 1)
})
