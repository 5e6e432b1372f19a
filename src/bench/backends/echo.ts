import { listenTcp } from './listen.ts'

/** Sends back what it reads, for as long as the client stays. */
export const serveEcho = (): Promise<number> =>
  listenTcp(socket => {
    socket.on('data', chunk => {
      socket.write(chunk)
    })
  })
