import t from 'tap'
import { kernelPlacement } from '../../src/mode/placements.ts'
import type { Target, VipKind } from '../../src/model/snapshot.ts'
import { servicePort } from '../support/service-ports.ts'

const forward: Target = { verdict: 'forward', endpoints: [] }
const drop: Target = { verdict: 'drop', endpoints: [] }

t.test('why clients of a VIP are not served, by who they are', async t => {
  const kinds: VipKind[] = [
    'ClusterIP',
    'Route',
    'ExternalIP',
    'LoadBalancerIP',
    'NodePort',
  ]
  const vips = kinds.map(kind => ({ kind, address: '127.0.0.1', port: 1 }))
  const reasons = (internal: Target, external: Target, externalFromNode: Target) =>
    kernelPlacement(
      servicePort('web', { vips, internal, external, externalFromNode }),
    ).vips.map(({ reason }) => reason)
  const [inside, outside] = ['internal', 'external'].map(
    which => `no local endpoints (${which}TrafficPolicy: Local)`,
  )
  t.strictSame(reasons(drop, forward, forward), [inside, inside, '', '', ''])
  t.strictSame(reasons(drop, drop, forward), [inside, inside, '', '', ''])
  t.strictSame(reasons(forward, drop, drop), ['', '', outside, outside, outside])
})
