import { randomBytes } from 'node:crypto'
import { linkSync, lstatSync, renameSync, rmSync, type Stats, statSync } from 'node:fs'
import { connect, type Server } from 'node:net'
import { dirname } from 'node:path'
import { errorCode } from '../util/error-code.ts'
import { errorOf, UsherError } from '../util/usher-error.ts'

/** Who may connect is who may write to the file, and root. */
const modeBits = 0o600
const modeMask = 0o7777

/** What the path has at its end while a socket is made or taken away: no other file has it. */
const draftOf = (path: string): string => `${path}~${randomBytes(2).toString('hex')}`

const cannotListen = (path: string, why: string): UsherError =>
  new UsherError('CANNOT_LISTEN', `--control-socket ${path}: ${why}`)

const ownUid = (): number => process.geteuid?.() ?? 0

const lookAt = (path: string): Stats | undefined =>
  lstatSync(path, { throwIfNoEntry: false })

/** Of no other file while somebody listens on it, also when it is removed. */
const identityOf = ({ dev, ino }: Stats): string => `${dev} ${ino}`

/**
 * Why a client must not speak to the socket at `path`; '' when it may. Its owner has to be this
 * user or root, and no other user may write to it; root takes any owner.
 */
export const whyNotTrusted = (path: string): string => {
  const file = lookAt(path)
  if (file === undefined)
    return 'there is no such file; is Usher running, with this --control-socket?'
  if (!file.isSocket()) return 'it is not a socket'
  if ((file.mode & 0o077) !== 0)
    return `its mode is ${(file.mode & modeMask).toString(8)}; only its owner may have a right to it`
  const own = ownUid()
  if (own !== 0 && file.uid !== 0 && file.uid !== own)
    return `permission denied: it is owned by uid ${file.uid}, and this is uid ${own}`
  return ''
}

/** A socket of the file system that this process listens on. */
export interface SocketFile {
  /** What has become of the file since; '' while it is as it was made. */
  readonly problem: () => string
  /** Removes the file, unless another is in its place. */
  readonly remove: () => void
}

/**
 * Lets `server` listen on `path`, with mode 0600 from the first moment. A socket that a process
 * has left behind is replaced when it is this user's and nothing listens on it; no other file
 * is. Rejects with CANNOT_LISTEN, and says why.
 */
export const listenOnFile = async (server: Server, path: string): Promise<SocketFile> => {
  checkDirectory(path)
  await removeStale(path)
  const draft = draftOf(path)
  try {
    // Not in its place: node:net removes what is at the path that it has bound when it closes.
    await listen(server, draft)
    // Unlike a rename it replaces nothing that another process may have put there meanwhile.
    linkSync(draft, path)
  } catch (error) {
    if (server.listening) server.close()
    throw cannotListen(path, reasonOf(error))
  } finally {
    rmSync(draft, { force: true })
  }
  const made = lookAt(path)
  const identity = made && identityOf(made)
  const isReplaced = (): boolean => {
    const now = lookAt(path)
    return now !== undefined && identityOf(now) !== identity
  }
  const problem = (): string => {
    const now = lookAt(path)
    if (now === undefined) return 'the file is gone, and nothing can connect to it'
    if (isReplaced()) return 'another file is in its place'
    const mode = now.mode & modeMask
    if (mode !== modeBits) return `its mode has become ${mode.toString(8)}; make it 600`
    return now.uid === ownUid() ? '' : `its owner has become uid ${now.uid}`
  }
  const remove = (): void => {
    if (!isReplaced()) rmSync(path, { force: true })
  }
  return { problem, remove }
}

/** node:net binds within the call, and no other code of this thread runs meanwhile. */
const listen = (server: Server, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    const before = process.umask(modeMask & ~modeBits & 0o777)
    try {
      server.listen({ path }, () => {
        server.removeListener('error', reject)
        resolve()
      })
    } finally {
      process.umask(before)
    }
  })

/** The system says of a missing directory that it is not allowed. */
const checkDirectory = (path: string): void => {
  const directory = dirname(path)
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found === undefined)
    throw cannotListen(path, `there is no directory ${directory}; make it first`)
  if (!found.isDirectory()) throw cannotListen(path, `${directory} is not a directory`)
}

const removeStale = async (path: string): Promise<void> => {
  const found = lookAt(path)
  if (found === undefined) return
  if (!found.isSocket()) throw cannotListen(path, 'there is a file that is not a socket')
  if (found.uid !== ownUid())
    throw cannotListen(path, `there is a socket of uid ${found.uid}, not of this user`)
  const answer = await answerAt(path)
  if (answer === '') throw cannotListen(path, 'another process listens on it')
  if (answer !== dead)
    throw cannotListen(path, `there is a socket, and connecting to it fails: ${answer}`)
  try {
    if (await removeDead(path)) return
  } catch (error) {
    throw cannotListen(path, reasonOf(error))
  }
  throw cannotListen(path, justBegun)
}

const dead = 'ECONNREFUSED'
const justBegun = 'another process has just begun to listen on it'

/**
 * Puts it out of the way first: by now it may be the socket of another process, that has found the
 * dead one too. That is given its place again; false then.
 */
const removeDead = async (path: string): Promise<boolean> => {
  const aside = draftOf(path)
  renameSync(path, aside)
  const isDead = lookAt(aside)?.isSocket() && (await answerAt(aside)) === dead
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
  if (code === 'EACCES') return 'no permission to make a socket in that directory'
  // ENOENT: the dead one has been removed.
  if (['EEXIST', 'EADDRINUSE', 'ENOENT'].includes(code)) return justBegun
  return code === 'EROFS' ? 'the file system is read-only' : code
}
