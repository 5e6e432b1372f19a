import { demoError } from './plan.ts'
import type { Change, EndpointSlice } from '../model/service.ts'
import { problemText } from '../source/decode/problem.ts'
import type { Source } from '../source/source.ts'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import type { Problem } from '../model/snapshot.ts'
import { messageOf } from '../util/usher-error.ts'

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
  let synced = false
  return {
    start: sink => {
      sink.apply(changes)
      sink.problems([])
      sink.synced()
      synced = true
      return Promise.resolve()
    },
    reload: () => {},
    status: () => {
      const lastGoodAt = synced ? Date.now() : undefined
      return { name, synced, lastGoodAt, error: '' }
    },
    close: () => Promise.resolve(),
  }
}

/**
 * Whether this system answers on an address of 127.0.0.0/8 that is not configured, over UDP at
 * a port that another one has, too. Linux and Windows do; macOS and the BSDs have 127.0.0.1
 * alone (RFC 1122, 3.2.1.3 reserves the block and leaves open how much of it a host serves),
 * and wine gives a UDP port to one address.
 */
export const answersOn = async (address: string): Promise<boolean> => {
  const sockets = [createSocket('udp4'), createSocket('udp4')] as const
  const [usual, other] = sockets
  try {
    await bound(usual, '127.0.0.1', 0)
    await bound(other, address, usual.address().port)
    return true
  } catch {
    return false
  } finally {
    for (const socket of sockets) socket.close()
  }
}

const bound = (socket: Socket, address: string, port: number): Promise<unknown> =>
  once(socket.bind({ address, port, exclusive: true }), 'listening')

/**
 * Reads a source once and closes it: the changes that make up its first state.
 * @throws DEMO when any of its objects is refused, or it has no good state.
 */
export const firstState = async (source: Source): Promise<readonly Change[]> => {
  const changes: Change[] = []
  let found: readonly Problem[] = []
  try {
    await source.start({
      apply: batch => void changes.push(...batch),
      synced: () => {},
      problems: problems => {
        found = problems
      },
    })
  } catch (error) {
    throw demoError(messageOf(error))
  } finally {
    await source.close()
  }
  const [problem] = found
  if (problem !== undefined) throw demoError(problemText(problem))
  return changes
}
