import { decodeService } from '../../../src/source/decode/service.ts'
import type { Change, EndpointSpec, Service } from '../../../src/model/service.ts'
import { portSpec, put, service, slice, terminating } from '../../support/objects.ts'
import { local, remote, type Situation } from './golden-world.ts'

/** `ns<n>/svc<n>` with the TCP port p80, which is 80 at its endpoints too. */
const numbered = (
  n: number,
  endpoints: readonly EndpointSpec[],
  over: Partial<Service> = {},
): readonly Change[] => {
  const names = { namespace: `ns${n}`, name: `svc${n}` }
  const ports = [portSpec({ name: 'p80' })]
  const clusterIPs = [`172.30.0.${40 + n}`]
  return [
    put(service(names.name, { ...names, clusterIPs, ports, ...over })),
    put(
      slice(endpoints, {
        namespace: names.namespace,
        serviceName: names.name,
        ports: [{ name: 'p80', protocol: 'TCP', port: 80 }],
      }),
    ),
  ]
}

const withNodePort = (nodePort: number) => [portSpec({ name: 'p80', nodePort })]

const balanced = (over: Partial<Service> = {}): readonly Change[] =>
  numbered(4, [local('10.180.0.4')], {
    loadBalancerIPs: ['203.0.113.4'],
    ports: withNodePort(30_044),
    ...over,
  })

const externalLocal = (endpoints: readonly EndpointSpec[]): readonly Change[] =>
  numbered(5, endpoints, {
    loadBalancerIPs: ['203.0.113.5'],
    ports: withNodePort(30_045),
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_045,
  })

const internalLocal = (
  endpoints: readonly EndpointSpec[],
  over: Partial<Service> = {},
): readonly Change[] =>
  numbered(6, endpoints, { internalTrafficPolicy: 'Local', ...over })

const detected = numbered(12, [local('10.180.0.12')], {
  externalIPs: ['192.168.99.42'],
  externalTrafficPolicy: 'Local',
})

/** A Service as an API server has it, whose load balancer keeps its address to itself. */
const proxyMode = (): readonly Change[] => {
  const ports = [{ name: 'p80', port: 80, nodePort: 30_044 }]
  const { changes } = decodeService({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'ns4', name: 'svc4' },
    spec: { type: 'LoadBalancer', clusterIP: '172.30.0.44', ports },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.4', ipMode: 'Proxy' }] } },
  })
  if (changes.length === 0) throw new Error('the Service was refused')
  return [...balanced().slice(1), ...changes]
}

const dns: readonly Change[] = [
  put(
    service('dns', {
      namespace: 'kube-system',
      clusterIPs: ['172.30.0.10'],
      ports: [
        portSpec({ name: 'dns', protocol: 'UDP', port: 53 }),
        portSpec({ name: 'dns-tcp', port: 53 }),
        portSpec({ name: 'metrics', port: 9100 }),
      ],
    }),
  ),
  put(
    slice([local('10.180.0.53')], {
      namespace: 'kube-system',
      serviceName: 'dns',
      ports: [
        { name: 'dns', protocol: 'UDP', port: 53 },
        { name: 'dns-tcp', protocol: 'TCP', port: 53 },
        { name: 'metrics', protocol: 'TCP', port: 9153 },
      ],
    }),
  ),
]

const inNs = (n: number) => ({ namespace: `ns${n}`, serviceName: `svc${n}` })

const unnamed: readonly Change[] = [
  put(
    service('svc9', {
      namespace: 'ns9',
      clusterIPs: ['172.30.0.49'],
      ports: [portSpec({ name: '', protocol: 'UDP', port: 514, nodePort: 30_049 })],
    }),
  ),
  put(
    slice([local('10.180.0.9')], {
      ...inNs(9),
      ports: [{ name: '', protocol: 'UDP', port: 514 }],
    }),
  ),
]

const kubernetes: readonly Change[] = [
  put(
    service('kubernetes', {
      clusterIPs: ['172.30.0.1'],
      ports: [portSpec({ name: 'https', port: 443 })],
    }),
  ),
  put(
    slice(
      [
        local('10.180.0.9'),
        remote('10.180.1.2'),
        local('10.180.0.10'),
        local('10.180.0.11', { ready: false, serving: false }),
        remote('10.180.1.12', terminating),
      ],
      {
        serviceName: 'kubernetes',
        ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
      },
    ),
  ),
]

const sixth: readonly Change[] = [
  put(
    service('svc1', {
      namespace: 'ns1',
      clusterIPs: ['fd00:172:30::41'],
      ports: [portSpec({ name: 'p80', nodePort: 30_041 })],
      affinityMs: 60_000,
    }),
  ),
  put(
    slice([local('fd00:10:180::1')], {
      ...inNs(1),
      family: 'IPv6',
      ports: [{ name: 'p80', protocol: 'TCP', port: 80 }],
    }),
  ),
]

/** The name of each is that of its golden file. */
export const situations: Readonly<Record<string, Situation>> = {
  base: {},
  'base-ipv6': { family: 'IPv6' },
  'no-localhost-node-ports': { settings: { localhostNodePorts: false } },
  'node-port-addresses': {
    settings: {
      nodePortCidrs: ['192.168.0.0/24'],
      nodeAddresses: ['192.168.0.2', '10.9.9.2'],
    },
  },
  'node-port-addresses-localhost': {
    settings: {
      nodePortCidrs: ['127.0.0.0/8', '192.168.0.0/24'],
      nodeAddresses: ['192.168.0.2', '10.9.9.2'],
    },
  },
  'conntrack-liberal': { features: { conntrackLiberal: true } },
  'no-random-fully': { features: { randomFully: false } },
  'another-mark': { settings: { masqueradeBit: 15 } },
  'cluster-ip': { changes: numbered(1, [local('10.180.0.1')]) },
  'several-endpoints': { changes: kubernetes },
  'node-port': { changes: nodePortService() },
  'node-port-counted': { changes: nodePortService(), features: { nfacct: true } },
  'external-ip': {
    changes: numbered(3, [local('10.180.0.3')], { externalIPs: ['192.168.99.33'] }),
  },
  'load-balancer': {
    changes: balanced({ loadBalancerIPs: ['203.0.113.4', '203.0.113.44'] }),
  },
  'load-balancer-proxy-mode': { changes: proxyMode() },
  'load-balancer-source-ranges': {
    changes: balanced({ sourceRanges: ['10.2.0.0/16', '198.51.100.0/24'] }),
  },
  'load-balancer-node-in-range': {
    changes: balanced({ sourceRanges: ['192.168.0.0/24'] }),
  },
  'external-local': {
    changes: externalLocal([local('10.180.0.5'), remote('10.180.1.5')]),
  },
  'external-local-elsewhere': { changes: externalLocal([remote('10.180.1.5')]) },
  'internal-local': {
    changes: internalLocal([local('10.180.0.6'), remote('10.180.1.6')]),
  },
  'internal-local-elsewhere': { changes: internalLocal([remote('10.180.1.6')]) },
  'internal-local-node-port': {
    changes: internalLocal([local('10.180.0.6'), remote('10.180.1.6')], {
      ports: withNodePort(30_046),
    }),
  },
  'no-endpoints': {
    changes: numbered(7, [local('10.180.0.7', { ready: false, serving: false })], {
      externalIPs: ['192.168.99.37'],
      loadBalancerIPs: ['203.0.113.7'],
      sourceRanges: ['198.51.100.0/24'],
      ports: withNodePort(30_047),
    }),
  },
  'session-affinity': {
    changes: numbered(8, [local('10.180.0.8'), remote('10.180.1.8')], {
      affinityMs: 10_800_000,
    }),
  },
  'several-ports': { changes: dns },
  'unnamed-port': { changes: unnamed },
  terminating: {
    changes: numbered(
      10,
      [
        local('10.180.0.10', terminating),
        remote('10.180.1.10'),
        remote('10.180.1.110', terminating),
      ],
      { externalIPs: ['192.168.99.40'], externalTrafficPolicy: 'Local' },
    ),
  },
  'zone-hints': {
    changes: numbered(11, [
      local('10.180.0.11', { zoneHints: ['there'] }),
      remote('10.180.1.11', { zoneHints: ['here'] }),
    ]),
  },
  ipv6: { changes: sixth, family: 'IPv6' },
  'ipv6-no-endpoints': {
    changes: numbered(1, [local('10.180.0.1')], {
      clusterIPs: ['172.30.0.41', 'fd00:172:30::41'],
    }),
    family: 'IPv6',
  },
  'detector-none': { changes: detected, settings: { localDetector: { by: 'none' } } },
  'detector-bridge': {
    changes: detected,
    settings: { localDetector: { by: 'bridge', name: 'cbr0' } },
  },
  'detector-interface-prefix': {
    changes: detected,
    settings: { localDetector: { by: 'interface prefix', prefix: 'veth' } },
  },
  'masquerade-all': { changes: detected, settings: { masqueradeAll: true } },
}

function nodePortService(): readonly Change[] {
  const [, endpoints] = numbered(2, [local('10.180.0.2')])
  const over = {
    ...inNs(2),
    ports: [{ name: 'p80', protocol: 'TCP', port: 8080 }],
  } as const
  const ports = withNodePort(30_042)
  const [object] = numbered(2, [], { ports })
  return object && endpoints ? [object, put(slice([local('10.180.0.2')], over))] : []
}
