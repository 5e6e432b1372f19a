import { hostname } from 'node:os'
import type { ClusterAccess } from '../config/run-settings.ts'
import type { ModeRequest } from '../mode/fallback-mode.ts'
import { isModeName, modeNames } from '../mode/mode.ts'
import type { Log } from '../observe/log.ts'
import { noNode, type NodeParts } from '../proxy/options.ts'
import { modeAnnotation, type ModeAnnotation } from '../source/decode/node.ts'
import type { ApiClient } from '../source/kubernetes/api-client.ts'
import { connectToCluster } from '../source/kubernetes/cluster-access.ts'
import { EventRecorder } from '../source/kubernetes/event-recorder.ts'
import { KubernetesSource } from '../source/kubernetes/kubernetes-source.ts'
import type { KubernetesObserver } from '../source/kubernetes/observer.ts'
import { readStart } from '../source/kubernetes/read-body.ts'
import { lookupHost } from '../source/routes/resolve-host.ts'
import { systemClock } from '../util/clock.ts'
import { messageOf } from '../util/usher-error.ts'
import { version } from './version.ts'

export interface ClusterPartsDeps {
  readonly access: ClusterAccess
  /** --hostname-override; '' for the system's own name. */
  readonly hostname: string
  /** Whether other Nodes matter: they do to a capture that makes addresses this host's own. */
  readonly otherNodes: boolean
  readonly log: Log
}

/**
 * The Kubernetes API as a source, and what comes with it. Rejects with BAD_SOURCE when
 * there is no way to an API server; whether that answers is not asked here.
 */
export const clusterParts = async ({
  access,
  hostname: override,
  otherNodes,
  log,
}: ClusterPartsDeps): Promise<{
  readonly source: KubernetesSource
  readonly node: NodeParts
  /**
   * The proxy mode that the Node asks for by an annotation, if any. Rejects when the Node
   * can't be read within 3 s.
   */
  readonly modeAnnotation: () => Promise<ModeAnnotation | undefined>
}> => {
  const nodeName = override === '' ? hostname().trim().toLowerCase() : override
  const deps = { lookup: lookupHost }
  const client = await connectToCluster({ ...access, version: version() }, deps)
  const { server, proxy } = client
  log.info(
    { server, ...(proxy && { proxy }), node: nodeName },
    'reading Services from Kubernetes',
  )
  const events = new EventRecorder({
    requests: client,
    instance: nodeName,
    onFailure: why => log.warn({ why }, 'an Event could not be sent'),
  })
  const observer = kubernetesLog(log, client.server, () => source.status().synced)
  const source = new KubernetesSource({ client, nodeName, otherNodes, observer })
  return {
    source,
    modeAnnotation: async () => modeAnnotation(await listNode(client, nodeName)),
    node: {
      ...noNode,
      nodeName,
      nodeProblem: () => source.nodeProblem(),
      requests: () => client.requests(),
      emit: event => events.emit(event),
      close: () => events.close(),
    },
  }
}

/** An API server that is away must not hold up the Services of a node for long. */
const nodeWithinMs = 3000
/** The API server's own bound for an object is 1.5 MiB. */
const longestNode = 2 * 1024 * 1024

/** By a list of one: that is what Usher's role allows, as the watch that follows needs it. */
const listNode = async (client: ApiClient, name: string): Promise<unknown> => {
  const { body } = await client.request({
    path: '/api/v1/nodes',
    query: { fieldSelector: `metadata.name=${name}`, limit: '1' },
    signal: AbortSignal.timeout(nodeWithinMs),
  })
  const deps = { clock: systemClock, silenceMs: nodeWithinMs }
  return JSON.parse(await readStart(body, longestNode, deps))
}

/**
 * What is asked for, by the Node's annotation where nothing else says: as kube-proxy did
 * from 1.1 to 1.5, to try a mode on some nodes of a cluster. Read once. Never rejects: a Node
 * that can't be read asks for nothing.
 */
export const askedMode = async (
  request: ModeRequest,
  annotation: () => Promise<ModeAnnotation | undefined>,
  log: Log,
): Promise<ModeRequest> => {
  if (request.mode !== '') return request
  try {
    const found = await annotation()
    if (found === undefined) return request
    const { name, value } = found
    if (isModeName(value)) return { mode: value, by: `annotation ${name} of the Node` }
    log.warn(
      { annotation: name, value },
      `the annotation on the Node is not a proxy mode; use one of ${modeNames.join(', ')}`,
    )
  } catch (error) {
    const why = messageOf(error)
    log.info({ why }, 'cannot read the proxy mode annotation of the Node')
  }
  return request
}

const timeText = (epochMs: number | undefined): string | undefined =>
  epochMs === undefined ? undefined : new Date(epochMs).toISOString()

const reachAdvice =
  'check the server and the credentials: they come from --kubeconfig or --master, else from the pod'

/**
 * Writes what happens between Usher and the API server. `isSynced`: there is a state that is
 * served while the server is away.
 */
const kubernetesLog = (
  log: Log,
  server: string,
  isSynced: () => boolean,
): KubernetesObserver => ({
  connected: resource => log.info({ resource }, 'watching'),
  lost: (resource, why, lastDataAt) =>
    log.warn(
      {
        resource,
        why,
        ...(isSynced()
          ? { lastWord: timeText(lastDataAt) }
          : { server, advice: reachAdvice }),
      },
      isSynced()
        ? 'cannot watch the API server; serving the last known state'
        : 'cannot read from the API server; retrying',
    ),
  relisted: (resource, why) => log.info({ resource, why }, 'listed again'),
  idleLimit: limitMs =>
    log.warn(
      {
        server,
        afterMs: limitMs,
        advice:
          'raise the idle timeout in front of the API server above 10 minutes (600 s)',
      },
      'something between Usher and the API server closes idle watches; from now on Usher ends them before that',
    ),
  fellBack: (resource, how) => log.info({ resource, how }, 'fell back'),
})
