import { createSocket, type Socket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { Endpoint } from '../services.ts'
import type { Placed } from './proxy.ts'

const relayTcp = (listen: Endpoint, next: () => Endpoint): void => {
  createServer({ allowHalfOpen: true, noDelay: true }, client => {
    const { address: host, port } = next()
    const backend = connect({ host, port, allowHalfOpen: true, noDelay: true })
    client.on('error', () => backend.destroy())
    backend.on('error', () => client.destroy())
    client.pipe(backend)
    backend.pipe(client)
  }).listen({ host: listen.address, port: listen.port, backlog: 4096 })
}

const relayUdp = (listen: Endpoint, next: () => Endpoint): void => {
  const front = createSocket('udp4')
  const flows = new Map<string, Socket>()
  front.on('message', (message, { address, port }) => {
    const client = `${address}:${port}`
    const known = flows.get(client)
    if (known) return known.send(message)
    const flow = createSocket('udp4')
    flow.on('message', reply => front.send(reply, port, address))
    // No listener there: the client sees it as lost.
    flow.on('error', () => undefined)
    const backend = next()
    flow.connect(backend.port, backend.address, () => {
      flows.set(client, flow)
      flow.send(message)
    })
  })
  front.bind(listen.port, listen.address)
}

const byTurns = (endpoints: readonly Endpoint[]): (() => Endpoint) => {
  let turn = 0
  return () => {
    const endpoint = endpoints[turn++ % endpoints.length]
    if (endpoint === undefined) throw new Error('a service without endpoints')
    return endpoint
  }
}

/**
 * The floor to compare with: the least a relay in Node can be. TCP is two pipes, UDP a
 * socket per client. No retries, limits, time-outs or records, and UDP clients are never
 * forgotten, so it is of no use but to be measured.
 *
 * Takes a file with its routes, JSON.
 */
const routes = JSON.parse(
  readFileSync(process.argv[2] ?? '', 'utf8'),
) as readonly Placed[]
for (const { protocol, listen, endpoints } of routes) {
  const relay = protocol === 'TCP' ? relayTcp : relayUdp
  relay(listen, byTurns(endpoints))
}
