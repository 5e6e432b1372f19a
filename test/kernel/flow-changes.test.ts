import t from 'tap'
import { FlowChanges } from '../../src/kernel/keeper/flow-changes.ts'
import { plainSettings, type RelaySettings } from '../../src/kernel/proxier.ts'
import type { FlowVip } from '../../src/kernel/conntrack.ts'
import type { ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import { endpoint } from '../support/objects.ts'
import { clusterIp, servicePort } from '../support/service-ports.ts'

const proxy = { address: '169.254.77.88', port: 40_000 }
const endpoints = [{ ...endpoint('10.1.1.1'), port: 8080 }]
const forward: Target = { verdict: 'forward', endpoints }
const drop: Target = { verdict: 'drop', endpoints: [] }

const dns = servicePort('dns', {
  protocol: 'UDP',
  vips: [clusterIp('10.96.0.10', 53)],
  endpoints,
  internal: forward,
})
const web = servicePort('web', { endpoints, internal: forward })

const byRelay = (one: ServicePort): ServicePort => ({ ...one, steeredTo: [proxy] })

const snapshotOf = (...all: ServicePort[]): Snapshot => ({
  family: 'IPv4',
  servicePorts: new Map(all.map(one => [one.key, one])),
  healthChecks: new Map(),
})

const taking = (serves: RelaySettings['serves']) => {
  const flows = new FlowChanges()
  const settings = { ...plainSettings, relay: { serves, nodePods: [] } }
  return (all: readonly ServicePort[], whole = false, left: readonly FlowVip[] = []) =>
    flows
      .take(snapshotOf(...all), whole, left, settings)
      .map(({ protocol, port, to = [], onlyRelayed }) =>
        [
          `${protocol} ${port}`,
          ...to.map(one => `to ${one.port}`),
          ...(onlyRelayed ? ['only relayed'] : []),
        ].join(' '),
      )
}

t.test('beside endpoints flows follow a Service that changes sides', async t => {
  const take = taking('beside endpoints')
  t.strictSame(take([dns, web]), ['UDP 53 to 8080', 'TCP 80 to 8080'])
  t.strictSame(take([byRelay(dns), byRelay(web)]), ['UDP 53 to 40000', 'TCP 80 to 40000'])
  t.strictSame(take([dns, web]), ['UDP 53 to 8080', 'TCP 80 to 8080'], 'who connects too')
  t.strictSame(take([{ ...dns }, { ...web }]), ['UDP 53 to 8080'], 'of TCP who has come')
  t.strictSame(take([byRelay({ ...dns, internal: drop })]), ['UDP 53'])
  t.strictSame(take([]), ['UDP 53'])
})

t.test('alone flows of others are let be, but what an earlier mode had', async t => {
  const take = taking('alone')
  const led = byRelay(dns)
  t.strictSame(take([led]), ['UDP 53 to 40000 only relayed'])
  const silent = byRelay({ ...dns, internal: drop })
  t.strictSame(take([silent]), ['UDP 53 only relayed'])
  t.strictSame(take([]), ['UDP 53 only relayed'])
  const left: FlowVip = {
    family: 'IPv4',
    protocol: 'UDP',
    address: '10.96.0.10',
    port: 53,
  }
  t.strictSame(take([silent], true, [left]), ['UDP 53'])
  t.strictSame(taking('alone')([], true, [left]), ['UDP 53'])
})
