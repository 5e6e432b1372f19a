import { hostname } from 'node:os'
import type { ClusterAccess } from '../config/run-settings.ts'
import type { Log } from '../observe/log.ts'
import { noNode, type NodeParts } from '../proxy/options.ts'
import { connectToCluster } from '../source/kubernetes/cluster-access.ts'
import { EventRecorder } from '../source/kubernetes/event-recorder.ts'
import {
  kubernetesSource,
  type KubernetesSource,
} from '../source/kubernetes/kubernetes-source.ts'
import { kubernetesLog } from './kubernetes-log.ts'
import { version } from './version.ts'

export interface ClusterPartsDeps {
  readonly access: ClusterAccess
  /** --hostname-override; '' for the system's own name. */
  readonly hostname: string
  readonly log: Log
}

/**
 * The Kubernetes API as a source, and what comes with it. Rejects with SourceError when
 * there is no way to an API server; whether that answers is not asked here.
 */
export const clusterParts = async ({
  access,
  hostname: override,
  log,
}: ClusterPartsDeps): Promise<{
  readonly source: KubernetesSource
  readonly node: NodeParts
}> => {
  const nodeName = override === '' ? hostname().trim().toLowerCase() : override
  const client = await connectToCluster({ ...access, version: version() })
  log.info({ server: client.server, node: nodeName }, 'Services come from Kubernetes')
  const events = new EventRecorder({
    requests: client,
    instance: nodeName,
    onFailure: why => log.warn({ why }, 'an Event could not be sent'),
  })
  const observer = kubernetesLog(log, () => source.status().synced)
  const source = kubernetesSource({ client, nodeName, observer })
  return {
    source,
    node: {
      ...noNode,
      nodeName,
      needsNode: true,
      requests: () => client.requests(),
      emit: event => events.emit(event),
      close: () => events.close(),
    },
  }
}
