import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachAtOnce } from '../../util/at-once.ts'

export interface NamespaceFolders {
  /** As /proc of proc(5), with the processes of the host's PID namespace. */
  readonly processes: string
  /** Where container runtimes bind namespaces to names (ip-netns(8)). */
  readonly named: string
}

const hostFolders: NamespaceFolders = { processes: '/proc', named: '/run/netns' }

export interface NetworkNamespace {
  /** Device and number: two files with the same are the same namespace. */
  readonly id: string
  /** That of this process. */
  readonly isOwn: boolean
  /** Files that led to it. */
  readonly paths: readonly string[]
}

export interface FoundNamespaces {
  readonly namespaces: readonly NetworkNamespace[]
  /** Files that this process may not look at (CAP_SYS_PTRACE, ptrace(2)). */
  readonly hidden: number
}

/** Files that are looked at together: Node has four threads for it. */
const atOnce = 8

/**
 * The network namespaces in which a process of the host runs, or that have a name. Those that only
 * an open descriptor or a thread of its own holds are not found.
 */
export const networkNamespaces = async ({
  processes,
  named,
}: NamespaceFolders = hostFolders): Promise<FoundNamespaces> => {
  const own = idOf(await stat('/proc/self/ns/net'))
  const [device = ''] = own.split(':')
  const found = new Map<string, { isOwn: boolean; paths: string[] }>()
  let hidden = 0
  const look = async (path: string): Promise<void> => {
    const id = await idAt(path)
    if (id === 'hidden') hidden += 1
    // Where a name's mount is gone its file stays, on another device.
    else if (id.startsWith(`${device}:`)) {
      const known = found.get(id)
      if (known !== undefined) known.paths.push(path)
      else found.set(id, { isOwn: id === own, paths: [path] })
    }
  }
  const pids = (await readdir(processes)).filter(name => /^\d+$/.test(name))
  await forEachAtOnce(atOnce, pids, pid => look(join(processes, pid, 'ns', 'net')))
  const names = await readdir(named).catch(ifGone([]))
  await forEachAtOnce(atOnce, names, name => look(join(named, name)))
  return { namespaces: Array.from(found, ([id, rest]) => ({ id, ...rest })), hidden }
}

/**
 * Calls `use` with the path of a file that is the namespace until it settles, or gives undefined
 * where all that led to it has ended. (A PID may be another process's by now.)
 */
export const holdNamespace = async <T>(
  { id, paths }: NetworkNamespace,
  use: (path: string) => Promise<T>,
): Promise<T | undefined> => {
  for (const path of paths) {
    const file = await open(path).catch(ifGone(undefined))
    if (file === undefined) continue
    try {
      const isSame = idOf(await file.stat()) === id
      if (isSame) return await use(`/proc/${process.pid}/fd/${file.fd}`)
    } finally {
      await file.close()
    }
  }
  return undefined
}

const idOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev}:${ino}`

const idAt = async (path: string): Promise<string> => {
  try {
    return idOf(await stat(path))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EACCES' || code === 'EPERM') return 'hidden'
    return ifGone('gone')(error as NodeJS.ErrnoException)
  }
}

/** ESRCH: of a process that ends just now. */
const ifGone =
  <T>(instead: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return instead
    throw error
  }
