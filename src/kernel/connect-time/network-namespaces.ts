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
  /** Folders of processes that ran in it. */
  readonly processes: readonly string[]
  /** Files that were bound to it. */
  readonly names: readonly string[]
}

export interface FoundNamespaces {
  readonly namespaces: readonly NetworkNamespace[]
  /** Folders of processes that this one may not look at (CAP_SYS_PTRACE, ptrace(2)). */
  readonly hidden: readonly string[]
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
  const found = new Map<string, { processes: string[]; names: string[] }>()
  const hidden: string[] = []
  const inspect = async (path: string, process?: string): Promise<void> => {
    const id = await idAt(path)
    if (id === 'hidden') hidden.push(process ?? path)
    // Where a name's mount is gone its file stays, on another device.
    if (!id.startsWith(`${device}:`)) return
    const one = found.get(id) ?? { processes: [], names: [] }
    found.set(id, one)
    if (process === undefined) one.names.push(path)
    else one.processes.push(process)
  }
  const pids = (await readdir(processes)).filter(name => /^\d+$/.test(name))
  await forEachAtOnce(atOnce, pids, async pid => {
    const folder = join(processes, pid)
    await inspect(join(folder, namespaceFile), folder)
  })
  const names = await readdir(named).catch(ifGone([]))
  await forEachAtOnce(atOnce, names, name => inspect(join(named, name)))
  const namespaces = Array.from(found, ([id, rest]) => ({
    id,
    isOwn: id === own,
    ...rest,
  }))
  return { namespaces, hidden }
}

const namespaceFile = 'ns/net'

/**
 * Calls `use` with the path of a file that is the namespace until it settles, or gives undefined
 * where all that led to it has ended. (A PID may be another process's by now.)
 */
export const holdNamespace = async <T>(
  { id, processes, names }: NetworkNamespace,
  use: (path: string) => Promise<T>,
): Promise<T | undefined> => {
  const paths = processes.map(folder => join(folder, namespaceFile))
  for (const path of [...names, ...paths]) {
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

/** Of what stat(2) gives of its file. */
export const idOf = ({ dev, ino }: { dev: number; ino: number }): string =>
  `${dev}:${ino}`

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
