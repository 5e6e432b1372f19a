import { createSocket } from 'node:dgram'
import { createServer, type Server } from 'node:net'
import { listenAt } from '../../../util/listen-at.ts'
import { abstractPlace } from '../../../util/connect-to.ts'
import { placeSocket } from '../../../util/placed-socket.ts'
import { accessOf, isUnix, unixPath } from '../../../util/unix-address.ts'
import type { RelayProtocol } from '../../../model/service.ts'
import type { Bind, RelayLimits } from '../../relay.ts'
import type {
  ListeningLayer,
  OpenedSockets,
  SocketLayer,
} from '../../engine/socket-layer.ts'
import { DatagramSocket, literalLookup } from './datagram-socket.ts'
import { ListeningSocket } from './listening-socket.ts'
import { LocalWorker } from './local-worker.ts'
import { NodeCalls } from './node-calls.ts'

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096
/** Room for a burst of datagrams while there is something else to do. */
const receiveBufferBytes = 4 << 20
/** Go's 15 s, as kube-proxy had. */
const usualKeepAliveMs = 15_000

/** Sockets of node:net and node:dgram, with one worker in this thread: wherever Node runs. */
export const nodeLayer = (limits: RelayLimits): SocketLayer => {
  const calls = new NodeCalls(limits.connectionBuffer)
  return {
    calls,
    listening: new NodeListening(calls, limits),
    hasThreads: false,
    startWorker: (setup, remote, retired) =>
      new LocalWorker(calls, setup, remote, retired),
  }
}

/** Opens servers and bound sockets. */
class NodeListening implements ListeningLayer {
  /** Node binds and listens at once. */
  readonly keepsPorts = false
  readonly #calls: NodeCalls
  readonly #limits: RelayLimits

  constructor(calls: NodeCalls, limits: RelayLimits) {
    this.#calls = calls
    this.#limits = limits
  }

  async open(protocol: RelayProtocol, bind: Bind): Promise<OpenedSockets> {
    if (protocol === 'UDP') return { fds: [await this.#openUdp(bind)], file: undefined }
    const server = createServer({
      allowHalfOpen: true,
      noDelay: true,
      pauseOnConnect: true,
      highWaterMark: this.#limits.connectionBuffer,
    })
    const file = await listenOn(server, bind)
    const { tcpKeepalive = usualKeepAliveMs } = this.#limits
    const options = this.#calls.streams(isUnix(bind.address))
    const listening = new ListeningSocket(server, options, tcpKeepalive, () => {
      this.#calls.arrived += 1
    })
    return { fds: [this.#calls.add(listening)], file }
  }

  listen(): void {
    throw new Error('a port without a listening socket is closed here')
  }

  #openUdp({ address, port }: Bind): Promise<number> {
    return new Promise((resolve, reject) => {
      const type = address.includes(':') ? 'udp6' : 'udp4'
      const socket = createSocket({
        type,
        ipv6Only: type === 'udp6',
        recvBufferSize: receiveBufferBytes,
        lookup: literalLookup,
      })
      const failed = (error: Error): void => {
        socket.close()
        reject(error)
      }
      socket.once('error', failed)
      socket.bind({ address, port, exclusive: true }, () => {
        socket.removeListener('error', failed)
        resolve(this.#calls.add(new DatagramSocket(socket, type)))
      })
    })
  }
}

/** Has a server listen on an address of TCP, or on a unix socket. */
const listenOn = async (
  server: Server,
  { address, port }: Bind,
): Promise<OpenedSockets['file']> => {
  if (!isUnix(address)) {
    const where = { host: address, port, backlog, ipv6Only: true, exclusive: true }
    await listenAt(server, where)
    return undefined
  }
  const path = unixPath(address)
  if (path.startsWith('\0')) {
    await listenAt(server, { ...abstractPlace(path), backlog })
    return undefined
  }
  try {
    return await placeSocket(path, accessOf(address), draft =>
      listenAt(server, { path: draft, backlog }),
    )
  } catch (error) {
    if (server.listening) server.close()
    throw error
  }
}
