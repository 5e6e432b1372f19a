import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import { interfaceAddresses } from '../../src/capture/local-addresses.ts'

/** Options of tests that need Linux, or IPv6. */
export const onLinux = process.platform === 'linux' ? {} : { skip: 'not Linux' }
export const withIpv6 = interfaceAddresses('IPv6').includes('::1')
  ? {}
  : { skip: 'there is no ::1' }

export const portOf = (server: Server): number => {
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object', 'it listens')
  return address.port
}

/** Both ends of a connection; `far` is the accepted one and reads nothing. */
export const connection = async (
  t: Test,
  listenOn: string,
  dial = listenOn,
): Promise<{ near: Socket; far: Socket }> => {
  const server = createServer({ pauseOnConnect: true })
  server.listen({ port: 0, host: listenOn })
  await once(server, 'listening')
  const near = connect(portOf(server), dial)
  const [far] = (await once(server, 'connection')) as [Socket]
  if (near.connecting) await once(near, 'connect')
  for (const socket of [near, far]) socket.on('error', () => {})
  t.teardown(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}
