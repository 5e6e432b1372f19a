import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  statfsSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { release } from 'node:os'
import { join, dirname } from 'node:path'
import { readFile, readlink, stat } from 'node:fs/promises'
import { listenAt } from '../../util/listen-at.ts'
import { messageOf } from '../../util/usher-error.ts'
import { Bpf, ProgramRefused } from '../bpf/bpf.ts'
import { noPins } from '../bpf/pins.ts'
import { ElementChanges } from '../elements/element-changes.ts'
import { compile, type LedServicePort } from './tables.ts'
import type { Features } from './programs.ts'
import { Steering } from './steering.ts'
import { readyEndpoint } from '../../model/service.ts'
import { probedServicePort } from '../probe.ts'
import { openCLibrary } from '../../ffi/c-library.ts'
import { AF_INET, SOCK_CLOEXEC, SOCK_DGRAM, SOL_SOCKET } from '../../ffi/constants.ts'

export interface ProbeOptions {
  /** --connect-time-cgroup; '' to look for it. */
  readonly cgroup: string
  /** Where a bpffs is mounted. */
  readonly bpffs: string
  /** Pods are left to the proxy mode. */
  readonly onlyNode: boolean
}

/** What steering is done with here, found out by doing it; or why it can't be. */
export type ConnectTimeProbe =
  | {
      readonly usable: true
      readonly detail: string
      readonly bpf: Bpf
      readonly cgroup: string
      readonly features: Features
      /** This process, as a key of the table `exempt`; undefined where programs don't see it. */
      readonly self: string | undefined
    }
  | { readonly usable: false; readonly detail: string }

/** Of statfs(2): BPF_FS_MAGIC. */
const bpffsType = 0xca_fe_4a_11

/**
 * Whether clients can be led here: a bpffs, a cgroup that has all of them, programs that the verifier
 * takes, and a connection that is led by them to where nothing else would. Leaves nothing behind.
 */
export const probeConnectTime = async (
  options: ProbeOptions,
): Promise<ConnectTimeProbe> => {
  try {
    return await tryAll(options)
  } catch (error) {
    return { usable: false, detail: reasonOf(error) }
  }
}

const tryAll = async ({
  cgroup: wanted,
  bpffs,
  onlyNode,
}: ProbeOptions): Promise<ConnectTimeProbe> => {
  const cgroup = await findCgroup(wanted)
  if ('reason' in cgroup) return not(cgroup.reason)
  const filesProblem = bpffsProblem(bpffs)
  if (filesProblem !== '') return not(filesProblem)
  const bpf = new Bpf()
  const node = networkCookie()
  const others = whoElseLeads(bpf, cgroup.path, bpffs)
  if (others !== '') return not(others)
  let refused: unknown
  for (const { without, ...features } of variants) {
    try {
      const all: Features = { ...features, node, onlyNode }
      const { led, self } = await leads(bpf, cgroup.path, { ...all, learns: true })
      if (cgroup.includesSelf && !led)
        return not(`programs at ${cgroup.path} do not see what this process connects to`)
      const hidden = seesAll(cgroup.path) ? [] : [noHostPid]
      const lacks = [...without, ...hidden, ...mountsText(release())]
      const detail = [cgroup.path, ...lacks].join('; ')
      return { usable: true, detail, bpf, cgroup: cgroup.path, features: all, self }
    } catch (error) {
      if (!(error instanceof ProgramRefused)) throw error
      refused = error
    }
  }
  throw refused
}

/** Processes of other PID namespaces are all 0 there (man 7 cgroups). */
const seesAll = (cgroup: string): boolean =>
  !/^0$/m.test(readFileSync(join(cgroup, 'cgroup.procs'), 'utf8'))

const noHostPid =
  "without the host's PID namespace (hostPID) connected UDP sockets of pods stay at endpoints that are gone"

const noErrors = 'before Linux 5.18: where no endpoint serves, clients get EPERM'
const noFailed = 'endpoints whose connect has failed are not passed over'

/** From the best on; what a kernel lacks is said. */
const variants = [
  { errors: true, avoidsFailed: true, without: [] },
  { errors: false, avoidsFailed: true, without: [noErrors] },
  { errors: false, avoidsFailed: false, without: [noErrors, noFailed] },
] as const

const keptMounts =
  'before Linux 6.6, unless the distribution has the fix, mounts by a VIP (NFS, CIFS, Ceph) stay at their first endpoint'
/** An older kernel keeps the endpoint in place of what it was to connect to (cilium#21541). */
export const mountsText = (version: string): readonly string[] =>
  /^([1-5]|6\.[0-5])\./.test(version) ? [keptMounts] : []

const not = (detail: string): ConnectTimeProbe => ({ usable: false, detail })

const bpffsProblem = (path: string): string => {
  try {
    if (statfsSync(path).type === bpffsType) return ''
  } catch (error) {
    const { code = messageOf(error) } = error as NodeJS.ErrnoException
    return `${path} (--connect-time-bpffs) can't be looked at (${code}): make the folder, and mount -t bpf bpf ${path}`
  }
  return `no bpffs is mounted at ${path} (--connect-time-bpffs): mount -t bpf bpf ${path}`
}

/** Whether a connection of this process's own is led, to where nothing else would; and who it was, then. */
const leads = async (
  bpf: Bpf,
  cgroup: string,
  features: Features,
): Promise<{ led: boolean; self: string | undefined }> => {
  const server = createServer(socket => socket.destroy())
  await listenAt(server, { host: '127.0.0.1', port: 0 })
  try {
    const sizes = { services: 16, slots: 16, members: 16, sockets: 64 }
    const steering = new Steering({ bpf, cgroup, features, sizes, pins: noPins })
    try {
      const { port } = server.address() as { port: number }
      const changes = new ElementChanges()
      const service = probeService(port)
      for (const each of compile(service)) changes.come(each)
      await steering.writer.write(changes)
      steering.attach()
      const [vip] = service.vips
      const led = vip !== undefined && (await connects(vip.address, vip.port))
      return { led, self: [...steering.entries('exempt')][0]?.[0] }
    } finally {
      steering.close()
    }
  } finally {
    server.close()
  }
}

/** To that address no TCP connects (the broadcast), so that no packet leaves the host where nobody is led. */
const probeService = (port: number): LedServicePort => ({
  ...probedServicePort('IPv4', 'probe', [{ ...readyEndpoint('127.0.0.1'), port }]),
  vips: [{ kind: 'ClusterIP', address: '255.255.255.255', port: 1 }],
})

const connects = (host: string, port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect({ host, port })
    const done = (is: boolean) => (): void => {
      socket.destroy()
      resolve(is)
    }
    socket.once('connect', done(true))
    socket.once('error', done(false))
  })

const reasonOf = (error: unknown): string => {
  const { code = '' } = error as NodeJS.ErrnoException
  if (code === 'EPERM' && !(error instanceof ProgramRefused))
    return 'not permitted: it takes CAP_BPF and CAP_NET_ADMIN, and a seccomp profile that allows bpf(2)'
  if (code === 'ENOSYS' || code === 'MODULE_NOT_FOUND')
    return code === 'ENOSYS'
      ? 'the kernel has no bpf(2) (CONFIG_BPF_SYSCALL, CONFIG_CGROUP_BPF), or a seccomp profile forbids it'
      : 'the package koffi, by which bpf(2) is called, is not installed'
  if (code === 'EINVAL' && !(error instanceof ProgramRefused))
    return `${messageOf(error)}: the kernel lacks a part of what it takes (Linux 5.8 has all, with CONFIG_CGROUP_BPF)`
  return messageOf(error)
}

/** BPF_CGROUP_INET4_CONNECT */
const connect4 = 10

/** Cilium's programs before 1.12 and since then, as far as the kernel keeps their names. */
const ciliumPrograms: ReadonlySet<string> = new Set(['sock4_connect', 'cil_sock4_conne'])
/** Where it keeps the link of that one since 1.14. */
const ciliumLink = 'cilium/socketlb/links/cgroup/cil_sock4_connect'

/**
 * Why another program that leads clients of Services is at the same hook, which would see endpoints
 * where Usher was first, or the other way round; '' for none. Others (systemd's, firewalls') run beside.
 */
export const whoElseLeads = (bpf: Bpf, cgroup: string, bpffs: string): string => {
  const problem =
    "Cilium's socket load balancing leads clients here (kubeProxyReplacement or socketLB of its Helm chart): only one of both can"
  if (existsSync(join(bpffs, ciliumLink))) return problem
  const folder = openSync(cgroup, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const programs = bpf.programsAt(folder, connect4)
    return programs.some(id => ciliumPrograms.has(nameOf(bpf, id))) ? problem : ''
  } finally {
    closeSync(folder)
  }
}

/** Without CAP_SYS_ADMIN nothing has a name. */
const nameOf = (bpf: Bpf, id: number): string => {
  try {
    return bpf.programName(id) ?? ''
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPERM') return ''
    throw error
  }
}

/** A folder of cgroup v2 whose processes can be led, or why there is none. */
type FoundCgroup =
  | {
      readonly path: string
      /** Whether this process is in it, or in a group below. */
      readonly includesSelf: boolean
    }
  | { readonly reason: string }

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
    return { reason: 'cgroup v2 is not mounted here (cgroup v1 has no such hooks)' }
  // Above this process's namespace there are dots; what has most of them is the highest.
  const above = mounts.filter(({ group }) => /^(\/\.\.)+$/.test(group))
  const highest = above.toSorted((a, b) => b.group.length - a.group.length)[0]
  const root = highest ?? mounts.find(({ group }) => group === '/')
  if (root === undefined)
    return { reason: 'only a part of cgroup v2 is mounted here, not its root' }
  if (highest === undefined && (await isContainer(proc)))
    return {
      reason:
        "this container sees only its own cgroup: mount the host's /sys/fs/cgroup into it, or name the node's cgroup (--connect-time-cgroup)",
    }
  return { path: root.path, includesSelf: true }
}

const given = async (
  path: string,
  mounts: readonly Mount[],
  own: string,
): Promise<FoundCgroup> => {
  const inode = await stat(path).catch(() => undefined)
  const no = (what: string): FoundCgroup => ({
    reason: `${path} (--connect-time-cgroup) ${what}${mountedAt(mounts)}`,
  })
  if (inode === undefined) return no('is not there')
  // Groups of v1 have no such file.
  const isOfV2 = await stat(join(path, 'cgroup.controllers')).catch(() => undefined)
  if (isOfV2 === undefined) return no('is no cgroup of cgroup v2')
  for (const { path: mounted, group } of mounts) {
    if (group !== '/') continue
    for (let each = join(mounted, own); each.startsWith(mounted); each = dirname(each)) {
      const { ino, dev } = (await stat(each).catch(() => undefined)) ?? {}
      if (ino === inode.ino && dev === inode.dev) return { path, includesSelf: true }
    }
  }
  return { path, includesSelf: false }
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

/** Linux 5.14. */
const SO_NETNS_COOKIE = 71

/**
 * By what the kernel knows this process's network namespace, and never another one; undefined before
 * Linux 5.14. Throws where there is no FFI.
 */
const networkCookie = (): bigint | undefined => {
  const library = openCLibrary()
  const open = library.func('int socket(int, int, int)')
  const ask = library.func('int getsockopt(int, int, int, int64_t, int64_t)')
  const close = library.func('int close(int)')
  const value = library.allocate(8)
  const length = library.allocate(8)
  length.view.setUint32(0, 8, true)
  const socket = open(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (socket < 0) return undefined
  const args = [SOL_SOCKET, SO_NETNS_COOKIE, value.address, length.address]
  const answer = ask(socket, ...args)
  close(socket)
  return answer < 0 ? undefined : value.view.getBigUint64(0, true)
}
