import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import type { Protocol } from '../model/service.ts'
import { isOutOfResources } from '../util/usher-error.ts'

/**
 * Whether a port (0: any) can be bound on all the addresses; which one, if so. Rejects
 * when there is no descriptor or memory to find out with.
 */
export type TryPort = (
  protocol: Protocol,
  addresses: readonly string[],
  port: number,
) => Promise<number | undefined>

/** Tries it by binding, and lets go of it. */
export const tryToBind: TryPort = async (protocol, addresses, wanted) => {
  let port = wanted
  const open: (() => void)[] = []
  try {
    for (const address of addresses) {
      const bound = await (protocol === 'TCP' ? bindTcp : bindUdp)(address, port)
      open.push(bound.close)
      port = bound.port
    }
    return port
  } catch (error) {
    if (isOutOfResources((error as NodeJS.ErrnoException).code)) throw error
    return undefined // In use on one of them, which is all that was asked.
  } finally {
    for (const close of open) close()
  }
}

interface Bound {
  readonly port: number
  readonly close: () => void
}

const bindTcp = (host: string, port: number): Promise<Bound> =>
  new Promise((resolve, reject) => {
    // Who happens to come meanwhile must not take it for a server.
    const server = createServer(socket => socket.resetAndDestroy())
    server.once('error', reject)
    server.listen({ host, port, ipv6Only: true, exclusive: true }, () => {
      const address = server.address()
      const bound = typeof address === 'object' ? (address?.port ?? port) : port
      resolve({ port: bound, close: () => server.close() })
    })
  })

const bindUdp = (address: string, port: number): Promise<Bound> =>
  new Promise((resolve, reject) => {
    const type = address.includes(':') ? 'udp6' : 'udp4'
    const socket = createSocket({ type, ipv6Only: type === 'udp6' })
    socket.once('error', error => {
      socket.close()
      reject(error)
    })
    socket.bind({ address, port, exclusive: true }, () => {
      resolve({ port: socket.address().port, close: () => socket.close() })
    })
  })
