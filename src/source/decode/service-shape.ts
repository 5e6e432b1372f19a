import * as v from 'valibot'
import {
  address,
  affinitySeconds,
  nodePort,
  object,
  port,
  portName,
  protocol,
  text,
} from './fields.ts'
import { show, printable } from '../../util/printable.ts'
import { decisive, parts } from './part.ts'
import type { Fault } from './problem.ts'

const types = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'] as const
const policies = ['Cluster', 'Local'] as const
const affinities = ['None', 'ClientIP'] as const

/** A value that a later Kubernetes may have is as good as none: the API's own default. */
const oneOf = <const T extends readonly string[]>(values: T, otherwise: T[number]) =>
  v.nullish(
    v.picklist(
      values,
      ({ input }) =>
        `${show(input)} is not one of ${values.join(', ')}; it is taken for ${otherwise}`,
    ),
  )

const ipMode = v.picklist(
  ['VIP', 'Proxy'],
  ({ input }) =>
    `${show(input)} is not VIP or Proxy; the address is left to the load balancer`,
)

/** What Usher reads of a v1 Service; all other fields may be anything. */
export const shape = object({
  spec: object({
    type: oneOf(types, 'ClusterIP'),
    clusterIP: v.nullish(address),
    clusterIPs: v.nullish(parts(address)),
    externalIPs: v.nullish(parts(address)),
    ports: v.nullish(
      parts(
        object({
          name: decisive(portName, ''),
          protocol: decisive(protocol, 'TCP'),
          port,
          nodePort: v.nullish(nodePort, 0),
        }),
      ),
    ),
    sessionAffinity: oneOf(affinities, 'None'),
    internalTrafficPolicy: oneOf(policies, 'Cluster'),
    externalTrafficPolicy: oneOf(policies, 'Cluster'),
    /** Looked at apart: without them, or with none that is sound, the Service would be open to all. */
    loadBalancerSourceRanges: v.optional(v.unknown()),
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
            parts(object({ ip: v.nullish(text), ipMode: v.nullish(ipMode) })),
          ),
        }),
      ),
    }),
  ),
})

export type Body = v.InferOutput<typeof shape>
export type RawPort = NonNullable<NonNullable<Body['spec']['ports']>[number]>

/**
 * Ports with the same name, or the same number and protocol, as an earlier one. The first of
 * several without a name is served; see `unnamedPorts`.
 */
export const portFaults = (ports: readonly (RawPort | undefined)[]): Fault[] => {
  if (ports.length === 0)
    return [{ field: 'spec.ports', message: 'is empty; a Service needs a port' }]
  const faults: Fault[] = []
  const taken = new Map<string, string>()
  const claim = (field: string, what: string) => {
    const holder = taken.get(what)
    if (holder === undefined) taken.set(what, field)
    else faults.push({ field, message: `${what} is taken by ${holder}` })
  }
  for (const [i, one] of ports.entries()) {
    if (one === undefined) continue
    const field = `spec.ports[${i}]`
    const carried = printable(one.protocol)
    if (one.name !== '') claim(`${field}.name`, `the name ${show(one.name)}`)
    claim(`${field}.port`, `${carried} port ${one.port}`)
    if (one.nodePort !== 0)
      claim(`${field}.nodePort`, `${carried} node port ${one.nodePort}`)
  }
  const [, ...unnamed] = unnamedPorts(ports)
  return [...faults, ...unnamed]
}

/** Of several ports each needs a name. */
export const unnamedPorts = (ports: readonly (RawPort | undefined)[]): Fault[] =>
  ports.length < 2
    ? []
    : ports.flatMap((one, i) => {
        const message = 'is missing; with several ports each needs a name'
        return one?.name === '' ? { field: `spec.ports[${i}].name`, message } : []
      })
