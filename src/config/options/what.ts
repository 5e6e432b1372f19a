import { serverAddress } from '../address.ts'
import { route } from '../routes.ts'
import { node, type Row } from '../row.ts'
import { anyText, list, onOff, text } from '../value.ts'

/** What a command works on. */
export const what = {
  manifests: {
    commands: node,
    group: 'What',
    type: list(text('PATH')),
    default: '',
    positional: true,
    help: 'File or directory with manifests (YAML or JSON): v1 Service, Endpoints, Node, List and discovery.k8s.io/v1 EndpointSlice. May be given several times; paths without a flag count too. Without any, Services come from the Kubernetes API.',
  },
  config: {
    commands: node,
    group: 'What',
    type: anyText('FILE'),
    default: '',
    help: "kube-proxy's configuration file (KubeProxyConfiguration v1alpha1, YAML or JSON). What it has a field for, it decides: the flags of those are ignored, but for --hostname-override and those of logging.",
  },
  'write-config-to': {
    commands: node,
    group: 'What',
    type: anyText('FILE'),
    default: '',
    help: 'Write the configuration, defaults filled in, to FILE and exit.',
  },
  route: {
    commands: ['sidecar'],
    group: 'What',
    type: list(route),
    default: '',
    help: 'Where to listen and where to go: tcp://LISTEN=BACKEND,BACKEND or udp://LISTEN=BACKEND,BACKEND, each an address with a port; ?affinity=3h at the end keeps a client on its backend. May be given several times.',
  },
  once: {
    commands: ['demo'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: 'Do everything once, check that it came out as expected, and exit 0 or 1.',
  },
  json: {
    commands: ['status'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: 'Print the whole answer as JSON.',
  },
  'dry-run': {
    commands: ['cleanup'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: 'Only say what would be removed.',
  },
  'only-usher': {
    commands: ['cleanup'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: "Remove what only Usher makes, and nothing that a mode of kube-proxy's may have. By itself so where another proxy answers on port 10249 of this host (/proxyMode): what is of the mode it says stays.",
  },
  address: {
    commands: ['status'],
    group: 'What',
    type: serverAddress(10249),
    default: '127.0.0.1:10249',
    help: 'The metrics address of the Usher to ask, the one it was given as --metrics-bind-address.',
  },
} as const satisfies Readonly<Record<string, Row>>
