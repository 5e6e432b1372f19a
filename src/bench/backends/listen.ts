import { type AddressInfo, createServer, type Socket } from 'node:net'

/** Serves `handle` on a port of 127.0.0.1 that the system chooses, and resolves with it. */
export const listenTcp = (handle: (socket: Socket) => void): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, socket => {
      // A run ends with its clients leaving in the middle: what went wrong before that
      // is counted where it matters, at the client.
      socket.on('error', () => socket.destroy())
      handle(socket)
    })
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      resolve((server.address() as AddressInfo).port)
    })
  })
