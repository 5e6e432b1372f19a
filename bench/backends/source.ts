import { listenTcp } from './listen.ts'

/** Sends without end, as fast as the client reads. */
export const serveSource = (host: string): Promise<number> => {
  const block = Buffer.alloc(256 * 1024, 'usher')
  return listenTcp(host, socket => {
    const fill = (): void => {
      while (!socket.destroyed && socket.write(block));
    }
    socket.on('drain', fill)
    socket.resume()
    fill()
  })
}
