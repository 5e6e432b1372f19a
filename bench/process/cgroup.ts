import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Where cgroup v2 is, alone or beside v1; undefined for nowhere. */
const root = (): string | undefined =>
  ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(path =>
    existsSync(join(path, 'cgroup.controllers')),
  )

const firstNamespace = /^\s*0\s+0\s+4294967295\s*$/

/** Why no programs can be put at a cgroup of the bench's own; '' when they can. */
export const cgroupProblem = (): string => {
  if (process.platform !== 'linux') return `${process.platform} has no cgroups`
  if (process.getuid?.() !== 0) return 'BPF programs at a cgroup take root'
  if (!firstNamespace.test(readFileSync('/proc/self/uid_map', 'utf8')))
    return 'BPF programs at a cgroup take root outside of user namespaces'
  if (root() === undefined) return 'cgroup v2 is not mounted'
  return /\tbpf$/m.test(readFileSync('/proc/filesystems', 'utf8'))
    ? ''
    : 'this kernel has no bpffs'
}

/** A new group below the root: who is in it is in no other bench's. */
export const makeCgroup = async (): Promise<string> => {
  const parent = root()
  if (parent === undefined) throw new Error('cgroup v2 is not mounted')
  const path = join(parent, `usher-bench-${randomBytes(4).toString('hex')}`)
  await mkdir(path)
  return path
}

const tries = 50
const tryEveryMs = 20

/** Its processes have to have ended; the kernel may take a moment to notice. */
export const removeCgroup = async (path: string): Promise<void> => {
  for (let left = tries; ; left -= 1)
    try {
      return await rmdir(path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || left === 0) throw error
      await sleep(tryEveryMs)
    }
}

/** Goes before a command line, and before what enters a namespace: there /sys is another. */
export const joining = (cgroup: string): readonly string[] => [
  'sh',
  '-c',
  'echo $$ >"$1/cgroup.procs" && shift && exec "$@"',
  'sh',
  cgroup,
]

/** Has a process in a group for as long as something goes on; sockets stay of where they were made. */
export const inCgroup = async <T>(
  cgroup: string | undefined,
  pid: number,
  work: () => Promise<T>,
): Promise<T> => {
  if (cgroup === undefined) return work()
  const home = groupOf(pid)
  move(pid, cgroup)
  try {
    return await work()
  } finally {
    // One that has ended is in none any more.
    if (existsSync(`/proc/${pid}`)) move(pid, home)
  }
}

const move = (pid: number, cgroup: string): void =>
  writeFileSync(join(cgroup, 'cgroup.procs'), `${pid}`)

/** The line of cgroup v2 has neither a number nor controllers (cgroups(7)). */
const groupOf = (pid: number): string => {
  const [, path = '/'] =
    /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8')) ?? []
  return join(root() ?? '', path)
}
