import { existsSync, readdirSync, readFileSync } from 'node:fs'

const folder = '/usr/lib/postgresql'

/** Where the programs of Debian's newest PostgreSQL are; '' where it isn't installed. */
export const postgresBin = (): string => {
  if (!existsSync(folder)) return ''
  const [newest] = readdirSync(folder).toSorted((a, b) => Number(b) - Number(a))
  const bin = `${folder}/${newest}/bin`
  return existsSync(`${bin}/initdb`) ? bin : ''
}

/** Why no PostgreSQL can be started here; '' when it can. */
export const postgresProblem = (): string =>
  postgresBin() === '' ? 'PostgreSQL is not installed (Debian package postgresql)' : ''

/** Has no files that a server could harm. */
const nobody = 65_534

/** How a server is started that refuses to run as root. */
export interface ServerUser {
  /** Goes before its command line. */
  readonly enter: readonly string[]
  /** Whose its files have to be; undefined for those of this process. */
  readonly owner?: number
}

/**
 * As root another user; in a sandbox made without root, where there is only one, that one by
 * another name. Its shared memory is of a namespace of its own, and goes with it.
 */
export const serverUser = (): ServerUser => {
  if (process.getuid?.() !== 0) return { enter: [] }
  const ids = String(nobody)
  return hasOthers()
    ? {
        enter: [
          'unshare',
          '--ipc',
          'setpriv',
          '--reuid',
          ids,
          '--regid',
          ids,
          '--clear-groups',
        ],
        owner: nobody,
      }
    : { enter: ['unshare', '--ipc', '--user', '--map-user', ids, '--map-group', ids] }
}

/** Whether this user namespace has more users than one (user_namespaces(7)). */
const hasOthers = (): boolean =>
  readFileSync('/proc/self/uid_map', 'utf8')
    .split('\n')
    .some(line => Number(line.trim().split(/\s+/)[2]) > nobody)
