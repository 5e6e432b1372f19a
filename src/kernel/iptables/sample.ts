import { readyEndpoint } from '../../model/ready-endpoint.ts'
import type { Endpoint, ServicePort, Snapshot, Target } from '../../model/snapshot.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { KernelSettings } from '../proxier.ts'
import { tableNames } from '../xtables/wanted.ts'
import { fullRules } from './full-rules.ts'
import type { Samples } from '../xtables/try-lines.ts'

/** All matches and targets of this mode. */
export const sampleLines = (family: IpFamily, randomFully: boolean): Samples => {
  const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1'
  const features = { randomFully, conntrackLiberal: false, nfacct: false, sctp: true }
  const rules = fullRules(sampleOf(family, address), settingsOf(address), features)
  const samples: Record<string, readonly string[]> = { mangle: [] }
  for (const table of tableNames) {
    const lines = [
      ...rules[table],
      ...rules.jumps[table].map(({ line }) => ({ lines: [line] })),
    ]
    samples[table] = lines.flatMap(each => each.lines)
  }
  return samples
}

const settingsOf = (address: string): KernelSettings => ({
  masqueradeAll: false,
  masqueradeBit: 14,
  localhostNodePorts: true,
  localDetector: { by: 'source', cidrs: [address] },
  nodePortCidrs: undefined,
  nodeAddresses: [],
})

/** One port by TCP and one by UDP, that has all a ServicePort can have; one refused. */
const sampleOf = (family: IpFamily, address: string): Snapshot => {
  const endpoints = [endpointOf(address, 1), endpointOf(address, 2)]
  const forward: Target = { verdict: 'forward', endpoints }
  const refused: Target = { verdict: 'reject', endpoints: [] }
  const tcp: ServicePort = {
    key: 'tcp',
    name: 'usher/probe',
    namespace: 'usher',
    serviceName: 'probe',
    portName: '',
    protocol: 'TCP',
    family,
    vips: [
      { kind: 'ClusterIP', address, port: 1 },
      { kind: 'LoadBalancerIP', address, port: 1 },
      { kind: 'NodePort', address, port: 1 },
    ],
    affinityMs: 1000,
    endpoints,
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Local',
    internal: forward,
    external: { verdict: 'drop', endpoints: [] },
    externalFromNode: forward,
    reachable: endpoints,
    sourceRanges: [address],
  }
  const udp: ServicePort = { ...tcp, key: 'udp', protocol: 'UDP', affinityMs: 0 }
  const none: ServicePort = {
    ...tcp,
    key: 'none',
    endpoints: [],
    internal: refused,
    external: refused,
    externalFromNode: refused,
    reachable: [],
  }
  const servicePorts = new Map([tcp, udp, none].map(each => [each.key, each]))
  const check = { namespace: 'usher', serviceName: 'probe', port: 1, localReady: 0 }
  return { family, servicePorts, healthChecks: new Map([['usher/probe', check]]) }
}

const endpointOf = (address: string, port: number): Endpoint => ({
  ...readyEndpoint(address),
  port,
})
