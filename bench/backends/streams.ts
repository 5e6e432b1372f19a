import { listenTcp } from './listen.ts'

/** The sink acknowledges each of so many bytes received with one byte. */
export const ackedBytes = 1024 * 1024

/**
 * Reads without end. The acknowledgements let the client count what has arrived
 * instead of what it has written, which may still sit in buffers on the way.
 */
export const serveSink = (host: string): Promise<number> =>
  listenTcp(host, socket => {
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
      const acks = Math.floor(received / ackedBytes)
      if (acks === 0) return
      received -= acks * ackedBytes
      socket.write(Buffer.alloc(acks))
    })
  })

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
