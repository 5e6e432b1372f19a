import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import type { Test } from 'tap'
import { testHost } from '../../support/ports.ts'

const listen = async (t: Test, server: Server): Promise<number> => {
  server.listen(0, testHost)
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** An HTTP server of somebody's, as `host:port`. */
export const httpServer = async (t: Test): Promise<string> =>
  `${testHost}:${await listen(
    t,
    createHttpServer((_, response) => response.end('x'.repeat(64))),
  )}`

/** A proxy that holds back every answer for a while. */
export const slowProxy = async (t: Test, to: string, ms: number): Promise<string> => {
  const [host = '', port] = to.split(':')
  const server = createServer(client => {
    const backend = connect(Number(port), host)
    client.pipe(backend)
    backend.on('data', chunk => {
      setTimeout(() => client.write(chunk), ms)
    })
    backend.on('close', () => client.destroy())
    client.on('close', () => backend.destroy())
    for (const socket of [client, backend]) socket.on('error', () => undefined)
  })
  return `${testHost}:${await listen(t, server)}`
}
