import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { connect as secure } from 'node:tls'
import type { Test } from 'tap'
import { portOf } from './connection.ts'

/** The first record that a TLS client sends which `start` has connect to a port of 127.0.0.1. */
export const capturedHello = async (
  t: Test,
  start: (port: number) => void,
): Promise<Buffer> => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const connected = once(server, 'connection') as Promise<[Socket]>
  start(portOf(server))
  const [socket] = await connected
  socket.on('error', () => {})
  let bytes: Buffer = Buffer.alloc(0)
  while (bytes.length < 5 || bytes.length < 5 + bytes.readUInt16BE(3)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    bytes = Buffer.concat([bytes, chunk])
  }
  socket.destroy()
  return bytes
}

/** That of node:tls; '' for no server name. */
export const helloFor = (
  t: Test,
  servername: string,
  ...ALPNProtocols: readonly string[]
): Promise<Buffer> =>
  capturedHello(t, port => {
    const options = { port, host: '127.0.0.1', servername, rejectUnauthorized: false }
    const client = secure({
      ...options,
      ...(ALPNProtocols.length > 0 && { ALPNProtocols: [...ALPNProtocols] }),
    })
    client.on('error', () => {})
    t.teardown(() => client.destroy())
  })
