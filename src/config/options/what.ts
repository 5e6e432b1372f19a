import { parseRoute } from '../../source/routes/route-flag.ts'
import type { Route } from '../../source/routes/route.ts'
import { metricsPort } from '../kube-proxy/configuration.ts'
import { group, node } from '../row.ts'
import { nameServers, serverAddress, waitTarget } from '../types/addresses.ts'
import {
  anyText,
  BadValue,
  badValue,
  list,
  oneOf,
  onOff,
  plain,
  text,
  textual,
  type OptionType,
} from '../types/basic.ts'
import { duration, int32, number } from '../types/quantities.ts'
import { messageOf } from '../../util/usher-error.ts'

const route: OptionType<Route, string> = textual('ROUTE', given => {
  try {
    return parseRoute(given)
  } catch (error) {
    throw new BadValue(messageOf(error))
  }
})

/** What a command works on. */
export const what = group('What', node, {
  manifests: {
    type: list(text('PATH')),
    positional: true,
    help: 'File or directory of manifests (YAML or JSON): v1 Service, Endpoints, Node, List and discovery.k8s.io/v1 EndpointSlice. May be repeated; arguments without a flag count as paths too. Without any, Services come from the Kubernetes API.',
  },
  config: {
    commands: ['run', 'sidecar', 'check'],
    type: anyText('FILE'),
    helpFor: {
      sidecar:
        'File of routes (YAML or JSON), in addition to --route; docs/routes.md describes its fields. Watched, and reread on SIGHUP: changes take effect without a restart.',
    },
    help: "kube-proxy's configuration file (KubeProxyConfiguration v1alpha1, YAML or JSON). Settings that have a field come from the file and their flags are ignored, except for --hostname-override and the logging flags.",
  },
  'write-config-to': {
    type: anyText('FILE'),
    help: 'Write the configuration, including defaults, to FILE and exit.',
  },
  route: {
    commands: ['sidecar', 'check'],
    type: list(route),
    helpFor: {
      check:
        'A route as given to `usher sidecar --route`, to validate along with the files of routes. May be repeated.',
    },
    help: 'A route: tcp://LISTEN=ENDPOINT,ENDPOINT or udp://LISTEN=ENDPOINT,ENDPOINT. LISTEN and ENDPOINT are an address with a port, or unix:/PATH for a unix socket; ENDPOINT may also be srv:NAME for SRV records. In ENDPOINT,ENDPOINT|ENDPOINT the part after the bar is a tier that is used when the endpoints before it are down. To listen on several addresses, separate them with commas, each with its own tcp:// or udp://. Options follow a question mark, like ?affinity=3h&replay=1k; docs/routes.md lists them. May be repeated.',
  },
  resolver: {
    commands: ['sidecar'],
    type: nameServers,
    defaultText: "the system's",
    help: 'DNS servers for endpoint names, like 10.0.0.2 or 10.0.0.3:5353, tried in order until one answers. /etc/hosts is consulted first; search domains are not applied.',
  },
  'dns-ttl-limit': {
    commands: ['sidecar'],
    type: duration('above zero'),
    default: '30s',
    help: 'Upper bound for the TTL of endpoint names (at least 1s). They are resolved again after this time at the latest; sooner when their TTL expires or one of their endpoints fails.',
  },
  once: {
    commands: ['demo'],
    type: onOff,
    help: 'Run every step once, check the results, and exit 0 or 1.',
  },
  json: {
    commands: ['status'],
    type: onOff,
    help: 'Print the complete answer as JSON.',
  },
  'dry-run': {
    commands: ['cleanup'],
    type: onOff,
    help: 'Only print what would be removed.',
  },
  'only-usher': {
    commands: ['cleanup'],
    type: onOff,
    help: "Remove only what Usher alone creates, nothing that kube-proxy's iptables, ipvs or nftables mode may own. This is the default if another proxy answers on port 10249 of this host (/proxyMode): whatever belongs to the mode it reports stays.",
  },
  for: {
    commands: ['wait'],
    type: list(waitTarget),
    positional: true,
    help: 'What to wait for: HOST:PORT, a route as given to a sidecar, or only the tcp://LISTEN or unix:/PATH of a route. May be repeated: Usher waits for all of them.',
  },
  timeout: {
    commands: ['wait'],
    type: duration('above zero'),
    default: '60s',
    help: 'Give up after this time, with exit code 1 and the last reason.',
  },
  stay: {
    commands: ['wait'],
    type: duration('or zero'),
    default: '0',
    defaultText: '500ms; 5s for a route and on loopback',
    help: 'How long a connection must stay open to count, unless a byte arrives first. A sidecar tries its endpoints for 3.75 s (--dial-ladder) before it resets a client.',
  },
  shell: {
    commands: ['completion'],
    type: list(oneOf(['bash', 'zsh', 'fish'])),
    positional: true,
    help: 'Shell to print the script for.',
  },
  address: {
    commands: ['status', 'wait', 'get', 'top', 'tap', 'explain'],
    type: serverAddress(metricsPort),
    default: '127.0.0.1:10249',
    helpFor: {
      wait: 'The metrics address of the sidecar: its --metrics-bind-address. While clients of a route are only held (hold, pause), the route does not count; the sidecar is asked at this address. If nothing answers there, a connection that stays open is enough.',
    },
    help: 'The metrics address of the Usher to query: its --metrics-bind-address.',
  },
})

const nodeName = (given: string): string => {
  const name = given.trim().toLowerCase()
  if (name === '' && given !== '')
    throw badValue(given, 'is no name', 'give that of the Node, or nothing')
  return name
}

/** As Nodes are named: lower-case, without blanks around it. */
const hostName = { ...plain('NAME', nodeName), read: nodeName }

/** The way to the API server, and who this node is there. */
export const cluster = group('Kubernetes API', node, {
  kubeconfig: {
    type: anyText('FILE'),
    field: 'clientConnection.kubeconfig',
    help: "File with the address of the API server and credentials for it. Without it and --master, the pod's service account is used.",
  },
  master: {
    type: anyText('URL'),
    help: 'Address of the API server; overrides the one in the kubeconfig.',
  },
  'kube-api-qps': {
    type: number,
    field: 'clientConnection.qps',
    help: 'Maximum requests per second to the API server; a negative number disables the limit.',
  },
  'kube-api-burst': {
    type: int32(0),
    field: 'clientConnection.burst',
    help: 'Maximum burst of requests after a pause.',
  },
  'hostname-override': {
    type: hostName,
    defaultText: "the system's hostname",
    field: 'hostnameOverride',
    beatsFile: true,
    help: 'Name of this Node in the cluster. With manifests it determines which endpoints are local; without it, none are.',
  },
})
