import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

/**
 * A loopback address that no other process of the tests uses, so that nobody else can get
 * a port between looking for it and listening on it. Where only 127.0.0.1 exists, that.
 */
export const testHost =
  process.platform === 'linux'
    ? `127.${100 + ((process.pid >> 16) & 63)}.${(process.pid >> 8) & 255}.${process.pid & 255}`
    : '127.0.0.1'

/** A TCP port that was free a moment ago; nobody listens there. */
export const freeTcpPort = async (host = testHost): Promise<number> => {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

export const freeUdpPort = async (host = testHost): Promise<number> => {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  socket.bind(0, host)
  await once(socket, 'listening')
  const { port } = socket.address()
  socket.close()
  await once(socket, 'close')
  return port
}

/** One that neither protocol has: what is free for UDP may be somebody's for TCP. */
export const freePort = async (host = testHost): Promise<number> => {
  for (let tries = 0; tries < 20; tries += 1) {
    const port = await freeUdpPort(host)
    const server = createServer().listen(port, host)
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
  throw new Error(`no port of ${host} is free for TCP and UDP`)
}
