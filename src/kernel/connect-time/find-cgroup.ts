import { readFile, readlink, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** A folder of cgroup v2 whose processes can be led, or why there is none. */
export type FoundCgroup =
  | {
      readonly path: string
      /** Whether this process is in it, or in a group below. */
      readonly isMine: boolean
    }
  | { readonly why: string }

/** Of cgroup v2 (man 5 proc, mountinfo): where it is, and which group of it is seen there. */
interface Mount {
  readonly path: string
  readonly group: string
}

/** The first cgroup namespace, which sees all of a machine (include/linux/proc_ns.h). */
const firstNamespace = 'cgroup:[4026531835]'

/**
 * The group that has all processes of this node: the root of cgroup v2, also beside v1. In a container
 * it is the host's, where that is mounted; without it a container sees its own group only, by
 * which nobody else would be led.
 * @param wanted - --connect-time-cgroup; '' to look for it
 * @param proc - /proc, or another for tests
 */
export const findCgroup = async (
  wanted: string,
  proc = '/proc',
): Promise<FoundCgroup> => {
  const mounts = mountsIn(await readFile(join(proc, 'self/mountinfo'), 'utf8'))
  const own = groupIn(await readFile(join(proc, 'self/cgroup'), 'utf8'))
  if (wanted !== '') return given(wanted, mounts, own)
  if (mounts.length === 0)
    return { why: 'cgroup v2 is not mounted here (cgroup v1 has no such hooks)' }
  // Above this process's namespace there are dots; what has most of them is the highest.
  const above = mounts.filter(({ group }) => /^(\/\.\.)+$/.test(group))
  const highest = above.toSorted((a, b) => b.group.length - a.group.length)[0]
  const root = highest ?? mounts.find(({ group }) => group === '/')
  if (root === undefined)
    return { why: 'only a part of cgroup v2 is mounted here, not its root' }
  if (highest === undefined && (await isContainer(proc)))
    return {
      why: "this container sees its own cgroup only: mount the host's /sys/fs/cgroup into it, or name the node's cgroup (--connect-time-cgroup)",
    }
  return { path: root.path, isMine: true }
}

const given = async (
  path: string,
  mounts: readonly Mount[],
  own: string,
): Promise<FoundCgroup> => {
  const inode = await stat(path).catch(() => undefined)
  const no = (what: string): FoundCgroup => ({
    why: `${path} (--connect-time-cgroup) ${what}${mountedAt(mounts)}`,
  })
  if (inode === undefined) return no('is not there')
  // Groups of v1 have no such file.
  const isOfV2 = await stat(join(path, 'cgroup.controllers')).catch(() => undefined)
  if (isOfV2 === undefined) return no('is no cgroup of cgroup v2')
  for (const { path: mounted, group } of mounts) {
    if (group !== '/') continue
    for (let each = join(mounted, own); each.startsWith(mounted); each = dirname(each)) {
      const { ino, dev } = (await stat(each).catch(() => undefined)) ?? {}
      if (ino === inode.ino && dev === inode.dev) return { path, isMine: true }
    }
  }
  return { path, isMine: false }
}

const mountedAt = ([first]: readonly Mount[]): string =>
  first === undefined
    ? '; cgroup v2 is not mounted here'
    : `; cgroup v2 is mounted at ${first.path}`

/** Whether process 1 is alone in the namespace's root. A system (kind's nodes are such) has groups below. */
const isContainer = async (proc: string): Promise<boolean> => {
  if ((await readlink(join(proc, 'self/ns/cgroup'))) === firstNamespace) return false
  return groupIn(await readFile(join(proc, '1/cgroup'), 'utf8')) === '/'
}

const mountsIn = (text: string): readonly Mount[] =>
  text.split('\n').flatMap(line => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , group = '', path = ''] = before.split(' ')
    return after.startsWith('cgroup2 ') ? [{ path: unescaped(path), group }] : []
  })

/** White space and backslashes are octal there. */
const unescaped = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )

/** Of cgroup v2, whose line has neither number nor controllers (man 7 cgroups). */
const groupIn = (text: string): string => /^0::(.*)$/m.exec(text)?.[1] ?? '/'
