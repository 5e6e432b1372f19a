import { randomBytes } from 'node:crypto'
import {
  chownSync,
  linkSync,
  lstatSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { connect } from 'node:net'
import { dirname } from 'node:path'
import type { SocketAccess } from './unix-address.ts'
import { errorOf, UsherError, errorCode } from './usher-error.ts'

/** The permissions of a file among the bits of its mode. */
export const modeMask = 0o7777

/** What the path has at its end while a socket is made or taken away: no other file has it. */
const draftOf = (path: string): string => `${path}~${randomBytes(2).toString('hex')}`

const cannotListen = (reason: string): UsherError =>
  new UsherError('CANNOT_LISTEN', reason)

export const ownUid = (): number => process.geteuid?.() ?? 0

/** What is at a path; undefined when nothing is. Throws as lstat does. */
export const statIfThere = (path: string): Stats | undefined =>
  lstatSync(path, { throwIfNoEntry: false })

/** Of no other file while somebody listens on it, also when it is removed. */
const identityOf = ({ dev, ino }: Stats): string => `${dev} ${ino}`

/** A socket of the file system that this process listens on. */
export interface PlacedSocket {
  /** Why clients don't find it; '' while it is there, and where that can't be found out. */
  readonly missing: () => string
  /** Removes the file, unless another is in its place. */
  readonly remove: () => void
}

/**
 * Has a socket listen on `path`, with its mode and owner from the first moment. `listen` is given
 * the path to bind within its call, and resolves when the socket listens; it answers for the
 * socket where this rejects. A socket that a process has left behind is replaced when it is this
 * user's or the owner's to be and nothing listens on it; no other file is. Rejects with
 * CANNOT_LISTEN, and says why.
 */
export const placeSocket = async (
  path: string,
  access: SocketAccess,
  listen: (draft: string) => Promise<void> | void,
): Promise<PlacedSocket> => {
  if (process.platform === 'win32')
    throw cannotListen('Node.js has no unix sockets on Windows')
  checkDirectory(path)
  await removeStale(path, access)
  const draft = draftOf(path)
  try {
    // Not in its place: node:net removes what is at the path that it has bound when it closes.
    await withMode(access.mode, () => listen(draft))
    const { uid, gid } = access
    if (uid !== undefined || gid !== undefined) chownSync(draft, uid ?? -1, gid ?? -1)
    // Unlike a rename it replaces nothing that another process may have put there meanwhile.
    linkSync(draft, path)
  } catch (error) {
    throw cannotListen(reasonOf(error))
  } finally {
    rmSync(draft, { force: true })
  }
  return placedAt(path)
}

/** The socket that is at a path now, and is this process's from now on. */
export const placedAt = (path: string): PlacedSocket => {
  const made = statIfThere(path)
  const identity = made && identityOf(made)
  const missing = (): string => {
    try {
      const file = statIfThere(path)
      if (file === undefined) return 'the file is gone, and nothing can connect to it'
      return identityOf(file) === identity ? '' : 'another file is in its place'
    } catch {
      return ''
    }
  }
  let isRemoved = false
  const remove = (): void => {
    if (isRemoved || missing() !== '') return
    rmSync(path, { force: true })
    // Once: a later socket there may get the same inode.
    isRemoved = true
  }
  return { missing, remove }
}

/** No other code of this thread runs within `listen`'s call. */
const withMode = <T>(mode: number, listen: () => T): T => {
  const before = process.umask(0o777 & ~mode)
  try {
    return listen()
  } finally {
    process.umask(before)
  }
}

/** The system says of a missing directory that it is not allowed. */
const checkDirectory = (path: string): void => {
  const directory = dirname(path)
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found === undefined)
    throw cannotListen(`there is no directory ${directory}; make it first`)
  if (!found.isDirectory()) throw cannotListen(`${directory} is not a directory`)
}

const seen = (path: string): Stats | undefined => {
  try {
    return statIfThere(path)
  } catch (error) {
    throw cannotListen(reasonOf(error))
  }
}

const removeStale = async (path: string, { uid }: SocketAccess): Promise<void> => {
  const found = seen(path)
  if (found === undefined) return
  if (!found.isSocket()) throw cannotListen('there is a file that is not a socket')
  if (found.uid !== ownUid() && found.uid !== uid)
    throw cannotListen(`the socket there belongs to uid ${found.uid}, not to this user`)
  const answer = await answerAt(path)
  if (answer === '') throw cannotListen('another process listens on it')
  if (answer !== dead)
    throw cannotListen(`there is a socket, and connecting to it fails: ${answer}`)
  try {
    if (await removeDead(path)) return
  } catch (error) {
    throw cannotListen(reasonOf(error))
  }
  throw cannotListen(justBegun)
}

/** Whether some process accepts there. */
export const answersAt = async (path: string): Promise<boolean> =>
  (await answerAt(path)) === ''

const dead = 'ECONNREFUSED'
const justBegun = 'another process has just begun to listen on it'

/**
 * Puts it out of the way first: by now it may be the socket of another process, that has found the
 * dead one too. That is given its place again; false then.
 */
const removeDead = async (path: string): Promise<boolean> => {
  const aside = draftOf(path)
  renameSync(path, aside)
  const isDead = statIfThere(aside)?.isSocket() && (await answerAt(aside)) === dead
  if (!isDead) linkSync(aside, path)
  rmSync(aside, { force: true })
  return isDead === true
}

/** '' when something accepts there, else the code of the error. */
const answerAt = (path: string): Promise<string> =>
  new Promise(resolve => {
    const socket = connect({ path })
    socket.once('connect', () => {
      socket.destroy()
      resolve('')
    })
    socket.once('error', error => resolve(errorCode(error)))
  })

const reasonOf = (error: unknown): string => {
  const code = errorCode(errorOf(error))
  if (code === 'EACCES')
    return 'no permission to make a socket in that directory; give another path'
  if (code === 'EPERM') return 'no permission to give it that owner'
  // ENOENT: the dead one has been removed.
  if (['EEXIST', 'EADDRINUSE', 'ENOENT'].includes(code)) return justBegun
  return code === 'EROFS' ? 'the file system is read-only' : code
}
