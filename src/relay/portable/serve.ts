import type { Server } from 'node:net'
import { abstractPlace } from '../../util/connect-to.ts'
import { listenAt } from '../../util/listen-at.ts'
import { placeSocket } from '../../util/placed-socket.ts'
import { accessOf, isUnix, unixPath } from '../../util/unix-address.ts'
import type { Bind } from '../relay.ts'
import type { Served } from './handover.ts'

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096

/** Has a server listen on an address of TCP, or on a unix socket. */
export const serve = async (server: Server, bind: Bind): Promise<Served> => {
  const { address, port } = bind
  const close = (): void => void server.close()
  if (!isUnix(address)) {
    const where = { host: address, port, backlog, ipv6Only: true, exclusive: true }
    await listenAt(server, where)
    return { server, close }
  }
  const path = unixPath(address)
  if (path.startsWith('\0')) {
    await listenAt(server, { ...abstractPlace(path), backlog })
    return { server, close }
  }
  try {
    const file = await placeSocket(path, accessOf(address), draft =>
      listenAt(server, { path: draft, backlog }),
    )
    return {
      server,
      close: () => {
        file.remove()
        close()
      },
    }
  } catch (error) {
    if (server.listening) close()
    throw error
  }
}
