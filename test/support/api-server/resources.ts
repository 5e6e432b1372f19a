/** A collection the server holds. */
export interface Resource {
  /** As in paths: `services`. */
  readonly plural: string
  readonly kind: string
  /** `v1`, or group/version. */
  readonly apiVersion: string
  readonly namespaced: boolean
  /** Fields that fieldSelector knows besides the name and the namespace. */
  readonly fields: readonly string[]
  /** What a bookmark's object holds besides its metadata: the zero value of the type. */
  readonly empty: Readonly<Record<string, unknown>>
}

const row = (
  apiVersion: string,
  plural: string,
  kind: string,
  more: Partial<Resource> = {},
): Resource => ({
  plural,
  kind,
  apiVersion,
  namespaced: true,
  fields: [],
  empty: {},
  ...more,
})

const global = { namespaced: false }
const rbac = 'rbac.authorization.k8s.io/v1'

/**
 * Those that a service proxy reads come first; the others are there for kubectl, which
 * takes a manifest only when the server knows its kind.
 */
export const allResources: readonly Resource[] = [
  row('v1', 'services', 'Service', {
    fields: ['spec.clusterIP', 'spec.type'],
    empty: { spec: {}, status: { loadBalancer: {} } },
  }),
  row('v1', 'endpoints', 'Endpoints', { empty: { subsets: null } }),
  row('v1', 'nodes', 'Node', {
    ...global,
    fields: ['spec.unschedulable'],
    empty: { spec: {}, status: { daemonEndpoints: { kubeletEndpoint: { Port: 0 } } } },
  }),
  row('discovery.k8s.io/v1', 'endpointslices', 'EndpointSlice', {
    empty: { addressType: '', endpoints: null, ports: null },
  }),
  row('networking.k8s.io/v1', 'servicecidrs', 'ServiceCIDR', {
    ...global,
    empty: { spec: { cidrs: null }, status: {} },
  }),
  row('events.k8s.io/v1', 'events', 'Event', { fields: ['regarding.name', 'reason'] }),
  row('v1', 'namespaces', 'Namespace', global),
  row('v1', 'configmaps', 'ConfigMap'),
  row('v1', 'serviceaccounts', 'ServiceAccount'),
  row('v1', 'pods', 'Pod', { fields: ['spec.nodeName', 'status.phase'] }),
  row('apps/v1', 'daemonsets', 'DaemonSet'),
  row('apps/v1', 'deployments', 'Deployment'),
  row('batch/v1', 'jobs', 'Job'),
  row('scheduling.k8s.io/v1', 'priorityclasses', 'PriorityClass', global),
  row(rbac, 'clusterroles', 'ClusterRole', global),
  row(rbac, 'clusterrolebindings', 'ClusterRoleBinding', global),
  row(rbac, 'roles', 'Role'),
  row(rbac, 'rolebindings', 'RoleBinding'),
]

/** `apps` of `apps/v1`, '' of `v1`. */
export const groupOf = (apiVersion: string): string =>
  apiVersion.includes('/') ? (apiVersion.split('/', 1)[0] ?? '') : ''

/** The collection of this name. Throws for a name the server doesn't know. */
export const resourceNamed = (plural: string): Resource => {
  const found = allResources.find(resource => resource.plural === plural)
  if (found === undefined) throw new Error(`no resource '${plural}' in the test server`)
  return found
}

/** The collection an object belongs to. */
export const resourceOf = (apiVersion: string, kind: string): Resource => {
  const found = allResources.find(
    resource => resource.apiVersion === apiVersion && resource.kind === kind,
  )
  if (found === undefined)
    throw new Error(`the test server does not hold ${apiVersion} ${kind}`)
  return found
}
