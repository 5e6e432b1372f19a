import type { Server } from 'node:net'

/** The part of libuv's TCP handle that is used here. All of it exists in Node 20 to 24. */
interface TcpHandle {
  connect(request: object, address: string, port: number): number
  connect6(request: object, address: string, port: number): number
  readStart(): number
  readStop(): number
}

/**
 * Stops a listening server from accepting without closing it: waiting clients stay in the
 * kernel's queue, as they do at HAProxy's maxconn. Node has no call for it;
 * `server.maxConnections` accepts and closes, `server.close()` resets the queue.
 *
 * libuv starts and stops the watcher of a stream by readStart and readStop, but only for
 * streams marked readable, and a connect marks a stream so before it fails. Connecting
 * the listening socket to an address of the *other* family fails at once, in the kernel's
 * first check (EAFNOSUPPORT or EINVAL), and leaves the mark. Then readStop stops accepting
 * and readStart goes on with it.
 *
 * Answers undefined where that does not work (another engine, a later libuv, Windows); the
 * caller then has to refuse what it can't take.
 */
export const acceptGate = (server: Server): AcceptGate | undefined => {
  // There a handle keeps what it accepts where another keeps what it connects: both in one union.
  if (process.platform === 'win32') return undefined
  const handle = (server as unknown as { _handle?: TcpHandle })._handle
  const request = connectRequest()
  const address = server.address()
  if (handle === undefined || request === undefined) return undefined
  if (address === null || typeof address === 'string') return undefined
  const failed =
    address.family === 'IPv6'
      ? handle.connect(request, '127.0.0.1', 1)
      : handle.connect6(request, '::1', 1)
  if (failed === 0) return undefined
  if (handle.readStart() !== 0) return undefined
  return {
    stop: () => void handle.readStop(),
    start: () => void handle.readStart(),
  }
}

export interface AcceptGate {
  stop(): void
  start(): void
}

const connectRequest = (): object | undefined => {
  const binding = (
    process as unknown as {
      binding?: (name: string) => { TCPConnectWrap?: new () => object }
    }
  ).binding
  const Request = binding?.('tcp_wrap').TCPConnectWrap
  return Request === undefined ? undefined : new Request()
}
