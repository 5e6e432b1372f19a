import { createSocket } from 'node:dgram'

/** The kernel gives less where net.core.rmem_max says so. */
const receiveBuffer = 4 * 1024 * 1024

/** Sends each datagram back to where it came from. */
export const serveUdp = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = createSocket({
      type: 'udp4',
      recvBufferSize: receiveBuffer,
      // Node's own asks dns.lookup() about every address it sends to, a turn each.
      lookup: (address, _options, done) => done(null, address, 4),
    })
    socket.once('error', reject)
    socket.on('message', (message, { port, address }) =>
      socket.send(message, port, address),
    )
    socket.bind(0, host, () => {
      // What can't be sent back the client sees as lost, and it is counted there.
      socket.off('error', reject).on('error', () => undefined)
      resolve(socket.address().port)
    })
  })
