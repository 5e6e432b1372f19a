import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  statfsSync,
} from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { release } from 'node:os'
import { join } from 'node:path'
import { networkCookie } from '../../ffi/network-cookie.ts'
import { messageOf } from '../../util/usher-error.ts'
import { Bpf, ProgramRefused } from '../bpf/bpf.ts'
import { noPins } from '../bpf/pins.ts'
import { ElementChanges } from '../elements/element-changes.ts'
import { compile, type LedServicePort } from './compile.ts'
import { findCgroup } from './find-cgroup.ts'
import type { Features } from './forward.ts'
import { Steering } from './steering.ts'
import { readyEndpoint } from '../../model/service.ts'

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
  if ('why' in cgroup) return not(cgroup.why)
  const whyNoFiles = whyNoBpffs(bpffs)
  if (whyNoFiles !== '') return not(whyNoFiles)
  const bpf = new Bpf()
  const node = networkCookie()
  const others = whoElseLeads(bpf, cgroup.path, bpffs)
  if (others !== '') return not(others)
  let refused: unknown
  for (const { without, ...features } of variants) {
    try {
      const all: Features = { ...features, node, onlyNode }
      const { led, self } = await leads(bpf, cgroup.path, { ...all, learns: true })
      if (cgroup.isMine && !led)
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

const noErrors = 'before Linux 5.18: where nobody serves clients get EPERM'
const noFailed = 'endpoints whose connect has failed are not passed over'

/** From the best on; what a kernel lacks is said. */
const variants = [
  { errors: true, avoidsFailed: true, without: [] },
  { errors: false, avoidsFailed: true, without: [noErrors] },
  { errors: false, avoidsFailed: false, without: [noErrors, noFailed] },
] as const

const keptMounts =
  'before Linux 6.6, where the distribution has not mended it, mounts by a VIP (NFS, CIFS, Ceph) stay at their first endpoint'
/** An older kernel keeps the endpoint in place of what it was to connect to (cilium#21541). */
export const mountsText = (version: string): readonly string[] =>
  /^([1-5]|6\.[0-5])\./.test(version) ? [keptMounts] : []

const not = (detail: string): ConnectTimeProbe => ({ usable: false, detail })

const whyNoBpffs = (path: string): string => {
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
  const server = await listening()
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
const probeService = (port: number): LedServicePort => {
  const endpoint = { ...readyEndpoint('127.0.0.1'), port }
  const target = { verdict: 'forward', endpoints: [endpoint] } as const
  return {
    key: 'probe',
    family: 'IPv4',
    protocol: 'TCP',
    vips: [{ kind: 'ClusterIP', address: '255.255.255.255', port: 1 }],
    affinityMs: 0,
    sourceRanges: undefined,
    internal: target,
    externalFromNode: target,
  }
}

const listening = (): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port: 0 }, () => resolve(server))
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
  const said =
    "Cilium's socket load balancing leads clients here (kubeProxyReplacement or socketLB of its Helm chart): only one of both can"
  if (existsSync(join(bpffs, ciliumLink))) return said
  const folder = openSync(cgroup, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const programs = bpf.programsAt(folder, connect4)
    return programs.some(id => ciliumPrograms.has(nameOf(bpf, id))) ? said : ''
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
