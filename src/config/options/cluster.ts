import { duration } from '../duration.ts'
import { int32, number } from '../numbers.ts'
import { node, type Row } from '../row.ts'
import { anyText, badValue, value, type Value } from '../value.ts'

/** As Nodes are named: lower-case, without blanks around it. */
const hostName: Value<string> = value('NAME', text => {
  const name = text.trim().toLowerCase()
  if (name === '' && text !== '')
    throw badValue(text, 'is no name', 'give that of the Node, or nothing')
  return name
})

/** The way to the API server, and who this node is there. */
export const cluster = {
  kubeconfig: {
    commands: node,
    group: 'Kubernetes API',
    type: anyText('FILE'),
    default: '',
    field: 'clientConnection.kubeconfig',
    help: 'File with the way to the API server. Without it and --master: the service account of the pod.',
  },
  master: {
    commands: node,
    group: 'Kubernetes API',
    type: anyText('URL'),
    default: '',
    help: 'Address of the API server, in place of the one in the kubeconfig.',
  },
  'kube-api-qps': {
    commands: node,
    group: 'Kubernetes API',
    type: number,
    default: '5',
    field: 'clientConnection.qps',
    help: 'Requests a second to the API server; a negative number is no limit.',
  },
  'kube-api-burst': {
    commands: node,
    group: 'Kubernetes API',
    type: int32(0),
    default: '10',
    field: 'clientConnection.burst',
    help: 'Requests that may go at once after a pause.',
  },
  'hostname-override': {
    commands: node,
    group: 'Kubernetes API',
    type: hostName,
    default: '',
    defaultText: "the system's hostname",
    field: 'hostnameOverride',
    beatsFile: true,
    help: 'The name of this Node in the cluster. With manifests it says which endpoints are local; without it none is.',
  },
  'config-sync-period': {
    commands: node,
    group: 'Kubernetes API',
    type: duration('above zero'),
    default: '15m',
    field: 'configSyncPeriod',
    noEffect: 'here: everything is gone through again at each --sync-period',
    help: 'How often to go through all objects again, though none changed.',
  },
} as const satisfies Readonly<Record<string, Row>>
