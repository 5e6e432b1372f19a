import { randomBytes } from 'node:crypto'

/** An Event about the Node or a Service, for people. */
export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning'
  /** `Starting`, `FailedToStartServiceHealthcheck`: at most 128 characters. */
  readonly reason: string
  /** `StartKubeProxy`: at most 128 characters. */
  readonly action: string
  /** Cut at 1024 characters. */
  readonly message: string
  readonly regarding: {
    readonly kind: 'Node' | 'Service'
    readonly name: string
    /** '' for a Node. */
    readonly namespace: string
    /** `kubectl describe` shows those with it. A Node's own name, as kube-proxy has it, if not given. */
    readonly uid?: string | undefined
  }
}

/** The API's own bound for `note`. */
const longestNote = 1024
/** The API's own bound for `reportingInstance`. */
const longestInstance = 128

interface EventBody {
  /** Where Events of that namespace are. */
  readonly path: string
  readonly name: string
  readonly body: unknown
}

/** An events.k8s.io/v1 Event. Those about Nodes are in `default`. */
export const eventBody = (event: ClusterEvent, instance: string): EventBody => {
  const { kind, name, uid } = event.regarding
  const namespace = event.regarding.namespace || 'default'
  const id = `${name.slice(0, 230)}.${randomBytes(8).toString('hex')}`
  const regarding = {
    kind,
    apiVersion: 'v1',
    name,
    ...(kind === 'Service' && { namespace }),
    uid: uid ?? (kind === 'Node' ? name : undefined),
  }
  const body = {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: id, namespace },
    eventTime: microTime(),
    reportingController: 'kube-proxy',
    reportingInstance: `kube-proxy-${instance}`.slice(0, longestInstance),
    action: event.action,
    reason: event.reason,
    regarding,
    note: event.message.slice(0, longestNote),
    type: event.type,
  }
  const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`
  return { path, name: id, body }
}

/** A patch that says how often an Event has come by now. */
export const repeatBody = (count: number): unknown => ({
  series: { count, lastObservedTime: microTime() },
})

/** metav1.MicroTime wants six digits. */
const microTime = (): string => new Date().toISOString().replace('Z', '000Z')
