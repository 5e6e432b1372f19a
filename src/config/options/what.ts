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
    help: 'File or directory with manifests (YAML or JSON): v1 Service, Endpoints, Node, List and discovery.k8s.io/v1 EndpointSlice. May be given several times; paths without a flag count too. Without any, Services come from the Kubernetes API.',
  },
  config: {
    commands: ['run', 'sidecar', 'check'],
    type: anyText('FILE'),
    helpFor: {
      sidecar:
        'File with routes (YAML or JSON), besides those of --route; docs/routes.md has its fields. It is watched, and read again at SIGHUP: changes take effect without a restart.',
    },
    help: "kube-proxy's configuration file (KubeProxyConfiguration v1alpha1, YAML or JSON). For each setting that has a field, the file decides: the flags for these settings are ignored, except for --hostname-override and the logging flags.",
  },
  'write-config-to': {
    type: anyText('FILE'),
    help: 'Write the configuration, defaults filled in, to FILE and exit.',
  },
  route: {
    commands: ['sidecar'],
    type: list(route),
    help: 'Where to listen and where to go: tcp://LISTEN=ENDPOINT,ENDPOINT or udp://LISTEN=ENDPOINT,ENDPOINT, each an address with a port, or unix:/PATH for a unix socket, or srv:NAME for an endpoint by SRV records. In ENDPOINT,ENDPOINT|ENDPOINT the part after the bar is a tier that is used when the endpoints before it are down. Several addresses to listen on stand with commas, each with its tcp:// or udp://. Options stand at the end, like ?affinity=3h&replay=1k; docs/routes.md has them all. May be given several times.',
  },
  resolver: {
    commands: ['sidecar'],
    type: nameServers,
    defaultText: "the system's",
    help: 'DNS servers for the names of endpoints, 10.0.0.2 or 10.0.0.3:5353, each asked when those before it do not know. /etc/hosts goes before them; search domains are not applied.',
  },
  'dns-ttl-limit': {
    commands: ['sidecar'],
    type: duration('above zero'),
    default: '30s',
    help: 'Names of endpoints are looked up again after so long (1s at least), however long their records hold; sooner when their TTL is over or an endpoint of theirs fails.',
  },
  once: {
    commands: ['demo'],
    type: onOff,
    help: 'Do everything once, check that it came out as expected, and exit 0 or 1.',
  },
  json: {
    commands: ['status'],
    type: onOff,
    help: 'Print the whole answer as JSON.',
  },
  'dry-run': {
    commands: ['cleanup'],
    type: onOff,
    help: 'Only say what would be removed.',
  },
  'only-usher': {
    commands: ['cleanup'],
    type: onOff,
    help: "Remove what only Usher makes, and nothing that kube-proxy's iptables, ipvs or nftables mode may have. This is the default where another proxy answers on port 10249 of this host (/proxyMode): what belongs to the mode that the proxy reports stays.",
  },
  for: {
    commands: ['wait'],
    type: list(waitTarget),
    positional: true,
    help: 'What to wait for: HOST:PORT, or a route as a sidecar has it, or just its tcp://LISTEN or unix:/PATH, for where it listens. May be given several times: all of them are waited for.',
  },
  timeout: {
    commands: ['wait'],
    type: duration('above zero'),
    default: '60s',
    help: 'Give up after so long, with exit code 1 and the last reason.',
  },
  stay: {
    commands: ['wait'],
    type: duration('or zero'),
    default: '0',
    defaultText: '500ms; 5s for a route and on loopback',
    help: 'How long a connection has to stay open to count, unless a byte comes before. A sidecar tries its backends for 3.75 s (--dial-ladder) before it gives a client up.',
  },
  shell: {
    commands: ['completion'],
    type: list(oneOf(['bash', 'zsh', 'fish'])),
    positional: true,
    help: 'Shell that the script is for.',
  },
  address: {
    commands: ['status', 'wait', 'get', 'top', 'tap', 'explain'],
    type: serverAddress(metricsPort),
    default: '127.0.0.1:10249',
    helpFor: {
      wait: 'The metrics address of the sidecar: its --metrics-bind-address. A route does not count while its clients only wait (hold, pause), and the sidecar is asked about that at this address; when nothing answers there, it is enough that the connection stays open.',
    },
    help: 'The metrics address of the Usher to ask, the one it was given as --metrics-bind-address.',
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
    help: 'File with the address of the API server and credentials for it. Without it and --master: the service account of the pod.',
  },
  master: {
    type: anyText('URL'),
    help: 'Address of the API server, in place of the one in the kubeconfig.',
  },
  'kube-api-qps': {
    type: number,
    field: 'clientConnection.qps',
    help: 'Requests a second to the API server; a negative number is no limit.',
  },
  'kube-api-burst': {
    type: int32(0),
    field: 'clientConnection.burst',
    help: 'Requests that may go at once after a pause.',
  },
  'hostname-override': {
    type: hostName,
    defaultText: "the system's hostname",
    field: 'hostnameOverride',
    beatsFile: true,
    help: 'The name of this Node in the cluster. With manifests it says which endpoints are local; without it none is.',
  },
})
