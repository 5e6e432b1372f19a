import { connect, type ListenOptions, Socket } from 'node:net'
import { isUnix, unixPath } from './unix-address.ts'
import { UsherError } from './usher-error.ts'

/** Before version 22 Node fills an abstract name up with zeros, which makes it another one. */
const changesNames = Number.parseInt(process.versions.node, 10) < 22

const cannot = 'abstract sockets need Node 22, or the Linux relay'

/** Connects to an address, which may be a unix socket, with node:net. */
export const connectTo = (
  address: string,
  port: number,
  options: object = {},
): Socket => {
  if (!isUnix(address)) return connect({ ...options, host: address, port })
  const path = unixPath(address)
  if (path.startsWith('\0') && changesNames) return new Socket().destroy(unsupported())
  return connect({ ...options, path })
}

const unsupported = (): NodeJS.ErrnoException =>
  Object.assign(new Error(cannot), { code: 'ENOTSUP' })

/** What node:net is to listen on for an abstract socket. Throws CANNOT_LISTEN where it can't. */
export const abstractPlace = (path: string): ListenOptions => {
  if (changesNames) throw new UsherError('CANNOT_LISTEN', cannot)
  return { path }
}
