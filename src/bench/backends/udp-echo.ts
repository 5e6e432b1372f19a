import { createSocket } from 'node:dgram'

/** Sends each datagram back to where it came from. */
export const serveUdpEcho = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = createSocket('udp4')
    socket.once('error', reject)
    // A datagram that can't be sent back is seen as lost by the client, and counted there.
    socket.on('message', (message, { port, address }) =>
      socket.send(message, port, address, () => undefined),
    )
    socket.bind(0, '127.0.0.1', () => resolve(socket.address().port))
  })
