import { randomBytes, randomInt } from 'node:crypto'
import type { IpFamily } from '../../util/ip.ts'
import type { Probe } from '../probe.ts'
import { plainSettings } from '../proxier.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { type Backend, randomFully } from '../xtables/backend.ts'
import { type Samples, tryLines } from '../xtables/try-lines.ts'
import { addressAddition } from './read-kernel.ts'
import { type IpvsDeps, schedulerOf } from './ipvs-deps.ts'
import { failureOf } from './ipvs-tools.ts'
import { serverId } from './server-id.ts'
import { creation, type SetKind, setKinds, setType } from './set-names.ts'
import { ruleTables } from './rules.ts'

/** Does what the mode does, by names of its own, and takes it out again. Never rejects. */
export const probeIpvs = async (
  deps: IpvsDeps,
  family: IpFamily,
  probeRules: () => Promise<Probe>,
): Promise<Probe> => {
  try {
    const balancer = await tryBalancer(deps, family)
    const { usable, detail } = await probeRules()
    return { usable, detail: usable ? `${balancer}, ${detail}` : detail }
  } catch (error) {
    return { usable: false, detail: (error as Error).message }
  }
}

const tryBalancer = async (deps: IpvsDeps, family: IpFamily): Promise<string> => {
  await needModules(deps)
  // Without ip_vs, ipvsadm does not even print its version.
  const version = await deps.run('ipvsadm', ['--version'])
  await deps.run('ipset', ['--version'])
  const scheduler = schedulerOf(deps.options)
  if (!/^[a-z]\w*$/.test(scheduler))
    throw new ToolError(`"${scheduler}" is not the name of a scheduler`, 'failed', '')
  await tryServer(deps, family, scheduler)
  await tryDevice(deps, family, `usher-p${randomId()}`)
  const [, number = 'of unknown version'] = /v(\d\S*)/.exec(version) ?? []
  return `ipvsadm ${number}, scheduler ${scheduler}`
}

const randomId = (): string => randomBytes(4).toString('hex')

/** What /proc/net/ip_vs is there by, and what masquerading needs. */
const signs = {
  ip_vs: '/proc/net/ip_vs',
  nf_conntrack: '/proc/sys/net/netfilter/nf_conntrack_max',
}

const needModules = async (deps: IpvsDeps): Promise<void> => {
  for (const [name, sign] of Object.entries(signs)) {
    if ((await deps.read(sign)) !== undefined) continue
    const reason = await loadModule(deps, name)
    if ((await deps.read(sign)) === undefined) throw missing(name, reason)
  }
  await needConntrack(deps)
}

const conntrackFile = '/proc/sys/net/ipv4/vs/conntrack'

/** Without it nothing that goes through ipvs is masqueraded. */
const needConntrack = async ({ read, run }: IpvsDeps): Promise<void> => {
  const value = await read(conntrackFile)
  if (value === undefined)
    throw new ToolError(
      'kernel module ip_vs: made without CONFIG_IP_VS_NFCT, so nothing can be masqueraded',
      'failed',
      '',
    )
  if (value.trim() === '1') return
  // In a container /proc/sys may be read-only.
  const failure = await failureOf(() => run('test', ['-w', conntrackFile]))
  if (failure?.failure === 'failed')
    throw new ToolError(
      'net/ipv4/vs/conntrack is not 1, and can not be set from here',
      'failed',
      '',
    )
}

const tryServer = async (
  deps: IpvsDeps,
  family: IpFamily,
  scheduler: string,
): Promise<void> => {
  const { run } = deps
  // As with kube-proxy's probe; the port varies, for there may be two.
  const server = serverId('TCP', addresses[family], 20_000 + randomInt(10_000)).split(' ')
  const add = () => run('ipvsadm', ['-A', ...server, '-s', scheduler])
  try {
    if ((await failureOf(add)) === undefined) return
    // The kernel loads it where it can; where it can't, this says why.
    const reason = await loadModule(deps, `ip_vs_${scheduler}`)
    const failure = await failureOf(add)
    if (failure !== undefined)
      throw missing(
        `ip_vs_${scheduler}`,
        [failure.message, reason].filter(Boolean).join('; '),
      )
  } finally {
    // Also after one that took too long, which may have been done all the same.
    await takeOut(() => run('ipvsadm', ['-D', ...server]))
  }
}

/** Gives why not; '' when modprobe says that it did. */
const loadModule = async ({ run }: IpvsDeps, name: string): Promise<string> => {
  const failure = await failureOf(() => run('modprobe', [name]))
  if (failure === undefined) return ''
  return failure.failure === 'missing'
    ? 'not loaded, and there is no modprobe to load it with; install it (Debian package kmod), or load the module on the host'
    : failure.message
}

const missing = (name: string, reason: string): ToolError =>
  new ToolError(
    `kernel module ${name}: ${reason === '' ? 'still not there' : reason}`,
    'failed',
    '',
  )

/** Of blocks for documentation (RFC 5737, 3849). */
const addresses = { IPv4: '198.51.100.0', IPv6: '2001:db8::c633:6400' } as const

const tryDevice = async (
  { run }: IpvsDeps,
  family: IpFamily,
  name: string,
): Promise<void> => {
  const add = () => run('ip', ['link', 'add', name, 'type', 'dummy'])
  const failure = await failureOf(add)
  if (failure?.failure === 'missing') throw failure
  if (failure !== undefined) throw missing('dummy', failure.message)
  try {
    await run('ip', addressAddition(family, addresses[family], name).split(' '))
  } finally {
    await takeOut(() => run('ip', ['link', 'delete', 'dev', name]))
  }
}

/** Rejects with ToolError, and leaves nothing. */
export const trySetsAndRules = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
): Promise<void> => {
  const id = randomId()
  const types = [...new Set(setKinds.map(setType))]
  const name = (type: string): string =>
    `USHER-PROBE-${id}-${types.findIndex(t => t === type)}`
  const create = types.map(type => `create ${name(type)} ${creation(family, type)}\n`)
  try {
    await run('ipset', ['restore'], { input: create.join('') })
    await tryRules(family, backend, kind => name(setType(kind)))
  } finally {
    for (const type of types) await takeOut(() => run('ipset', ['destroy', name(type)]))
  }
}

/** All the rules there are. */
const tryRules = (
  family: IpFamily,
  backend: Backend,
  setOf: (kind: SetKind) => string,
): Promise<void> => {
  const tables = ruleTables(family, plainSettings, randomFully(backend), setOf)
  const samples: Samples = Object.fromEntries(
    tables.map(({ name, chains }) => [name, chains.flatMap(({ lines }) => lines)]),
  )
  return tryLines(backend, samples)
}

/**
 * Tries twice, as another program may hold a lock, or be reading the set. Does not reject:
 * why the probe failed is to be reported, not that there was nothing to take out.
 */
const takeOut = async (work: () => Promise<unknown>): Promise<void> => {
  if ((await failureOf(work)) !== undefined) await failureOf(work)
}
