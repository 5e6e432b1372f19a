import { connect, type Socket } from 'node:net'
import type { Endpoint } from '../services.ts'

/** Room for what comes in one read. */
const bufferBytes = 64 * 1024

/** Where HTTP connections go and what is asked on each. */
export interface Line {
  readonly to: Endpoint
  readonly request: string
  /** Asks the server to close after its answer. */
  readonly lastRequest: string
  /**
   * All connections read into one buffer: libuv reads and calls back in one go, and what
   * has come is looked at only then. It stays in the processor's cache.
   */
  readonly buffer: Uint8Array
}

export const lineTo = (to: Endpoint, path: string): Line => ({
  to,
  request: requestText(path, false),
  lastRequest: requestText(path, true),
  buffer: new Uint8Array(bufferBytes),
})

/** The name that servers are asked for, whatever their address. */
export const requestHost = 'usher-bench'

const requestText = (path: string, close: boolean): string =>
  `GET ${path} HTTP/1.1\r\nHost: ${requestHost}\r\n${close ? 'Connection: close\r\n' : ''}\r\n`

/** Dials, with `onBytes` told how many bytes have come into the line's buffer. */
export const dial = (
  { to, buffer }: Pick<Line, 'to' | 'buffer'>,
  onBytes: (length: number) => void,
): Socket =>
  connect({
    host: to.address,
    port: to.port,
    noDelay: true,
    onread: {
      buffer,
      callback: length => {
        onBytes(length)
        return true
      },
    },
  })

/** Ends sockets at once. Resolves when they are closed. */
export const destroyAll = async (sockets: Iterable<Socket>): Promise<void> => {
  await Promise.all(
    Array.from(
      sockets,
      socket =>
        new Promise<void>(resolve => {
          if (socket.closed) return resolve()
          socket.once('close', () => resolve()).destroy()
        }),
    ),
  )
}
