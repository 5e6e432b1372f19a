import { createSocket, type Socket } from 'node:dgram'
import { connect, createServer } from 'node:net'
import { parseArgs } from 'node:util'

/**
 * The floor to compare with: the least a relay in Node can be. TCP is two pipes, UDP a
 * socket per client. No retries, limits, time-outs or records, and clients are never
 * forgotten, so it is of no use but to be measured.
 *
 * Takes `--route tcp://127.0.0.1:LISTEN=127.0.0.1:BACKEND`, any number of times.
 */
const relayTcp = (listenPort: number, backendPort: number): void => {
  createServer({ allowHalfOpen: true, noDelay: true }, client => {
    const backend = connect({
      host: '127.0.0.1',
      port: backendPort,
      allowHalfOpen: true,
      noDelay: true,
    })
    client.on('error', () => backend.destroy())
    backend.on('error', () => client.destroy())
    client.pipe(backend)
    backend.pipe(client)
  }).listen(listenPort, '127.0.0.1')
}

const relayUdp = (listenPort: number, backendPort: number): void => {
  const front = createSocket('udp4')
  const flows = new Map<string, Socket>()
  front.on('message', (message, { address, port }) => {
    const client = `${address}:${port}`
    const known = flows.get(client)
    if (known) return known.send(message)
    const flow = createSocket('udp4')
    flow.on('message', reply => front.send(reply, port, address))
    flow.connect(backendPort, '127.0.0.1', () => {
      flows.set(client, flow)
      flow.send(message)
    })
  })
  front.bind(listenPort, '127.0.0.1')
}

const { values } = parseArgs({
  options: { route: { type: 'string', multiple: true, default: [] } },
})
for (const route of values.route) {
  const parts = /^(tcp|udp):\/\/127\.0\.0\.1:(\d+)=127\.0\.0\.1:(\d+)$/.exec(route)
  if (!parts) throw new Error(`--route ${route}: want tcp://127.0.0.1:P=127.0.0.1:P`)
  const relay = parts[1] === 'tcp' ? relayTcp : relayUdp
  relay(Number(parts[2]), Number(parts[3]))
}
