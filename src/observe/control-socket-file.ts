import type { Server } from 'node:net'
import { listenAt } from '../util/listen-at.ts'
import { statIfThere, modeMask, ownUid, placeSocket } from '../util/placed-socket.ts'
import { messageOf, UsherError } from '../util/usher-error.ts'

/** Who may connect is who may write to the file, and root. */
const modeBits = 0o600

/** Where the path of a control socket was given, and the path, as errors name it. */
export const givenSocket = (path: string): string =>
  process.env['USHER_CONTROL_SOCKET'] === path
    ? `USHER_CONTROL_SOCKET=${path}`
    : `--control-socket ${path}`

/**
 * Why a client must not speak to the socket at `path`; '' when it may. Its owner has to be this
 * user or root, and no other user may write to it; root takes any owner.
 */
export const trustProblem = (path: string): string => {
  const file = statIfThere(path)
  if (file === undefined)
    return 'there is no such file; is Usher running with this control socket?'
  if (!file.isSocket()) return 'it is not a socket'
  if ((file.mode & 0o077) !== 0)
    return `its mode is ${(file.mode & modeMask).toString(8)}; only its owner may have access`
  const own = ownUid()
  if (own !== 0 && file.uid !== 0 && file.uid !== own)
    return `permission denied: it is owned by uid ${file.uid}, and this is uid ${own}`
  return ''
}

/** The control socket, which this process listens on. */
export interface ControlSocketFile {
  /** What has become of the file since; '' while it is as it was made. */
  readonly problem: () => string
  /** Removes the file, unless another is in its place. */
  readonly remove: () => void
}

/** Lets `server` listen on `path`, with mode 0600; see `placeSocket`. */
export const listenOnFile = async (
  server: Server,
  path: string,
): Promise<ControlSocketFile> => {
  const { missing, remove } = await placeSocket(
    path,
    { mode: modeBits, uid: undefined, gid: undefined },
    draft => listenAt(server, { path: draft }),
  ).catch((error: unknown) => {
    if (server.listening) server.close()
    throw new UsherError('CANNOT_LISTEN', `${givenSocket(path)}: ${messageOf(error)}`)
  })
  const problem = (): string => {
    const file = statIfThere(path)
    if (missing() !== '' || file === undefined) return missing()
    const mode = file.mode & modeMask
    if (mode !== modeBits) return `its mode has become ${mode.toString(8)}; make it 600`
    return file.uid === ownUid() ? '' : `its owner has become uid ${file.uid}`
  }
  return { problem, remove }
}
