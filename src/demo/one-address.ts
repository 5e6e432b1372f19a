import type { Change, EndpointSlice } from '../model/service.ts'
import type { Source } from '../source/source.ts'

/** Where the process that stands for `address:port` really listens. */
export type Placement = (
  address: string,
  protocol: EndpointSlice['ports'][number]['protocol'],
  port: number,
) => number

/**
 * Moves every endpoint to 127.0.0.1, for systems that have no other loopback address.
 * Endpoints then differ by port, and a slice has one set of ports for all of its
 * endpoints, so each endpoint becomes a slice of its own. VIPs stay as they are.
 */
export const ontoOneAddress = (
  changes: readonly Change[],
  portFor: Placement,
): readonly Change[] =>
  changes.flatMap(change =>
    change.kind === 'EndpointSlice' && change.object
      ? split(change.object, portFor)
      : [change],
  )

const split = (slice: EndpointSlice, portFor: Placement): Change[] =>
  slice.endpoints.map((endpoint, index) => {
    const name = `${slice.name}-${index + 1}`
    const ports = slice.ports.map(({ name: portName, protocol, port }) => ({
      name: portName,
      protocol,
      port: portFor(endpoint.address, protocol, port),
    }))
    const endpoints = [{ ...endpoint, address: '127.0.0.1' }]
    const object: EndpointSlice = { ...slice, name, endpoints, ports }
    return { kind: 'EndpointSlice', namespace: slice.namespace, name, object }
  })

/** A source that never changes. */
export const fixedSource = (name: string, changes: readonly Change[]): Source => {
  let lastGoodAt: number | undefined
  return {
    start: sink => {
      sink.apply(changes)
      sink.problems([])
      sink.synced()
      lastGoodAt = Date.now()
      return Promise.resolve()
    },
    reload: () => {},
    status: () => ({ name, synced: lastGoodAt !== undefined, lastGoodAt, error: '' }),
    close: () => Promise.resolve(),
  }
}
