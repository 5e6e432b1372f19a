import * as v from 'valibot'
import {
  address,
  affinitySeconds,
  list,
  nodePort,
  object,
  port,
  portName,
  protocol,
  text,
} from './fields.ts'
import { show } from './printable.ts'

const types = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'] as const
const policies = ['Cluster', 'Local'] as const
const affinities = ['None', 'ClientIP'] as const

const policy = v.nullish(
  v.picklist(policies, issue => `${show(issue.input)} is not Cluster or Local`),
  'Cluster',
)

/** What Usher reads of a v1 Service; all other fields may be anything. */
export const shape = object({
  spec: object({
    type: v.nullish(
      v.picklist(
        types,
        issue => `${show(issue.input)} is not one of ${types.join(', ')}`,
      ),
    ),
    clusterIP: v.nullish(address),
    clusterIPs: v.nullish(list(address)),
    externalIPs: v.nullish(list(address)),
    ports: v.nullish(
      list(
        object({
          name: v.nullish(portName, ''),
          protocol: v.nullish(protocol, 'TCP'),
          port,
          nodePort: v.nullish(nodePort, 0),
        }),
      ),
    ),
    sessionAffinity: v.nullish(
      v.picklist(affinities, issue => `${show(issue.input)} is not None or ClientIP`),
    ),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    loadBalancerSourceRanges: v.nullish(list(text)),
    healthCheckNodePort: v.nullish(nodePort, 0),
    sessionAffinityConfig: v.nullish(
      object({
        clientIP: v.nullish(object({ timeoutSeconds: v.nullish(affinitySeconds) })),
      }),
    ),
  }),
  status: v.nullish(
    object({
      loadBalancer: v.nullish(
        object({
          ingress: v.nullish(
            list(object({ ip: v.nullish(text), ipMode: v.nullish(text) })),
          ),
        }),
      ),
    }),
  ),
})

export type Body = v.InferOutput<typeof shape>
export type RawPort = NonNullable<Body['spec']['ports']>[number]
