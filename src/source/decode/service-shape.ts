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
import { show, printable } from '../../util/printable.ts'
import type { Fault } from './problem.ts'

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

/** Ports with the same name, or the same number and protocol. */
export const portFaults = (ports: readonly RawPort[]): Fault[] => {
  if (ports.length === 0)
    return [{ field: 'spec.ports', message: 'is empty; a Service needs a port' }]
  const faults: Fault[] = []
  const taken = new Map<string, string>()
  const claim = (field: string, what: string) => {
    const holder = taken.get(what)
    if (holder === undefined) taken.set(what, field)
    else faults.push({ field, message: `${what} is taken by ${holder}` })
  }
  for (const [
    i,
    { name, port: number, protocol: spoken, nodePort: onNode },
  ] of ports.entries()) {
    const field = `spec.ports[${i}]`
    const carried = printable(spoken)
    if (name !== '') claim(`${field}.name`, `the name ${show(name)}`)
    else if (ports.length > 1)
      faults.push({
        field: `${field}.name`,
        message: 'is missing; with several ports each needs a name',
      })
    claim(`${field}.port`, `${carried} port ${number}`)
    if (onNode !== 0) claim(`${field}.nodePort`, `${carried} node port ${onNode}`)
  }
  return faults
}
