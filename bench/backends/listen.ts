import { type AddressInfo, createServer, type Socket } from 'node:net'

/** New connections that may wait to be accepted: bursts of them are what is measured. */
export const backlog = 4096

/** Serves `handle` on a TCP port that the system chooses, and resolves with it. */
export const listenTcp = (
  host: string,
  handle: (socket: Socket) => void,
): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, socket => {
      // A run ends with its clients leaving in the middle: what went wrong before that
      // is counted where it matters, at the client.
      socket.on('error', () => socket.destroy())
      handle(socket)
    })
    server.once('error', reject)
    server.listen({ port: 0, host, backlog }, () => {
      resolve((server.address() as AddressInfo).port)
    })
  })
