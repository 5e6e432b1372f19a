import type { Snapshot, Target } from '../model/snapshot.ts'
import { labelText } from './exposition.ts'
import type { OwnFamily, Sample } from './exposition.ts'

/** Changed objects: Services, and the slices (or Endpoints) of Services. */
export interface ChangeCount {
  readonly services: number
  readonly endpoints: number
}

/** Requests to the API server with one outcome. */
export interface RequestCount {
  /** HTTP status code, or `<error>` when there was no answer, as client-go says it. */
  readonly code: string
  readonly method: string
  /** `host:port` of the API server. */
  readonly host: string
  readonly count: number
}

export interface KubeReaders {
  /** Changes that wait for the next sync. */
  readonly pending: () => ChangeCount
  /** Changes that syncs have taken in since the process started; see `SyncMetrics`. */
  readonly changes: () => ChangeCount
  readonly snapshots: () => readonly Snapshot[]
  /** Undefined where the source is not the Kubernetes API. */
  readonly requests: (() => readonly RequestCount[]) | undefined
  readonly version: string
}

const plain = (value: number): Sample[] => [{ suffix: '', labels: '', value }]

const changeFamilies = (
  what: 'service' | 'endpoint',
  { pending, changes }: KubeReaders,
): OwnFamily[] => {
  const field = what === 'service' ? 'services' : 'endpoints'
  return [
    {
      name: `kubeproxy_sync_proxy_rules_${what}_changes_pending`,
      type: 'gauge',
      help: `Changes of ${field} that wait to be applied.`,
      samples: () => plain(pending()[field]),
    },
    {
      name: `kubeproxy_sync_proxy_rules_${what}_changes_total`,
      type: 'counter',
      help: `Changes of ${field} that were taken in to be applied.`,
      samples: () => plain(changes()[field]),
    },
  ]
}

const dropped = ({ verdict }: Target): boolean => verdict === 'drop'

const noLocal = ({ family, servicePorts }: Snapshot): Sample[] => {
  const count = { internal: 0, external: 0 }
  for (const port of servicePorts.values()) {
    if (dropped(port.internal)) count.internal += 1
    if (dropped(port.external) && port.vips.some(({ kind }) => kind !== 'ClusterIP'))
      count.external += 1
  }
  return Object.entries(count).map(([policy, value]) => ({
    suffix: '',
    labels: labelText({ ip_family: family, traffic_policy: policy }),
    value,
  }))
}

const requestsFamily = (requests: () => readonly RequestCount[]): OwnFamily => ({
  name: 'rest_client_requests_total',
  type: 'counter',
  help: 'Requests to the API server, by status code, method and host.',
  samples: () =>
    requests().map(({ code, method, host, count }) => ({
      suffix: '',
      labels: labelText({ code, host, method }),
      value: count,
    })),
})

/** Go's name of the architecture this runs on. */
const goArch = (): string => (process.arch === 'x64' ? 'amd64' : process.arch)

/**
 * Every Kubernetes component has it. The version is Usher's own, since there is no
 * Kubernetes in it: a rule that compares versions of components should leave Usher out.
 */
const buildInfo = (version: string): OwnFamily => ({
  name: 'kubernetes_build_info',
  type: 'gauge',
  help: 'Always 1; gitVersion is the version of Usher.',
  samples: () => [
    {
      suffix: '',
      labels: labelText({
        build_date: '',
        compiler: 'node',
        git_commit: '',
        git_tree_state: '',
        git_version: `v${version}`,
        go_version: process.version,
        major: version.split('.')[0] ?? '',
        minor: version.split('.')[1] ?? '',
        platform: `${process.platform}/${goArch()}`,
      }),
      value: 1,
    },
  ],
})

/** What kube-proxy tells besides its syncs, under its names. */
export const kubeFamilies = (readers: KubeReaders): readonly OwnFamily[] => [
  ...changeFamilies('service', readers),
  ...changeFamilies('endpoint', readers),
  {
    // Upstream's name; it is a gauge all the same.
    name: 'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    type: 'gauge',
    help: 'ServicePorts whose policy is Local and whose endpoints are all on other nodes: these clients get no answer.',
    samples: () => readers.snapshots().flatMap(noLocal),
  },
  ...(readers.requests ? [requestsFamily(readers.requests)] : []),
  buildInfo(readers.version),
]
