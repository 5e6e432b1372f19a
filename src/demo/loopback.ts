import { createServer } from 'node:net'

/**
 * Whether this system answers on an address of 127.0.0.0/8 that nobody configured.
 * Linux and Windows do; macOS and the BSDs have 127.0.0.1 alone (RFC 1122, 3.2.1.3
 * reserves the block and leaves open how much of it a host serves).
 */
export const answersOn = (address: string): Promise<boolean> =>
  new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host: address, port: 0 }, () => server.close(() => resolve(true)))
  })
