import type { Change, EndpointSlice, Protocol, Service } from '../model/service.ts'
import { UsherError } from '../util/usher-error.ts'

/** What a backend process does with what it gets. */
type Speaks = 'http' | 'tcp-echo' | 'udp-echo'

/** One endpoint of the example, and the process that is to stand there. */
export interface PlannedBackend {
  /** `web-1`; what it calls itself when it answers. */
  readonly name: string
  readonly service: string
  readonly protocol: Protocol
  readonly speaks: Speaks
  readonly address: string
  readonly port: number
  /** Nothing listens there: the example of a backend that has died. */
  readonly dead: boolean
}

/** The objects of the example manifest, and the backends they ask for. */
export interface Plan {
  readonly services: readonly Service[]
  readonly slices: readonly EndpointSlice[]
  readonly backends: readonly PlannedBackend[]
}

/** Endpoints on this node get no process. */
const deadNode = 'dead-node'

const speaks = (protocol: Protocol, portName: string): Speaks =>
  protocol === 'UDP' ? 'udp-echo' : portName === 'http' ? 'http' : 'tcp-echo'

const backendsOf = (
  service: string,
  slices: readonly EndpointSlice[],
): PlannedBackend[] => {
  // The TCP and the UDP port of one address are one pod to the reader: one name.
  const numbers = new Map<string, number>()
  return slices
    .flatMap(slice => slice.endpoints.map(endpoint => ({ endpoint, ports: slice.ports })))
    .flatMap(({ endpoint, ports }) => {
      const number = numbers.get(endpoint.address) ?? numbers.size + 1
      numbers.set(endpoint.address, number)
      return ports.map(({ name, protocol, port }) => ({
        name: `${service}-${number}`,
        service,
        protocol,
        speaks: speaks(protocol, name),
        address: endpoint.address,
        port,
        dead: endpoint.nodeName === deadNode,
      }))
    })
}

/** Reads the plan out of the first state of a source. */
export const planOf = (changes: readonly Change[]): Plan => {
  const services = changes.flatMap(change =>
    change.kind === 'Service' && change.object ? [change.object] : [],
  )
  const slices = changes.flatMap(change =>
    change.kind === 'EndpointSlice' && change.object ? [change.object] : [],
  )
  const backends = services.flatMap(({ name, namespace }) =>
    backendsOf(
      name,
      slices.filter(s => s.serviceName === name && s.namespace === namespace),
    ),
  )
  return { services, slices, backends }
}

/** What ends the demo, with a reason for its user. */
export const demoError = (reason: string): UsherError => new UsherError('DEMO', reason)
