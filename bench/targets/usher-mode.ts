import { existsSync } from 'node:fs'
import { runTool } from '../../src/kernel/run-tool.ts'
import type { Lane, Topology } from '../topology/topology.ts'
import { pageIn } from './probe.ts'
import { type Program, programProblem } from './program.ts'
import type { Order, RunningTarget, Target } from './target.ts'
import {
  clusterIps,
  ownCommand,
  startUsher,
  type UsherProgram,
  usherProblem,
} from './usher-program.ts'

/** The modes in which the kernel carries the traffic, and Usher only its rules. */
export type KernelMode = 'nftables' | 'iptables' | 'ipvs'

export interface UsherModeOptions extends Omit<UsherProgram, 'name' | 'command'> {
  readonly mode: KernelMode
  readonly mainlyFor?: readonly string[]
}

/** `usher run --proxy-mode MODE`: clients dial a ClusterIP, the kernel leads them on. */
export const usherModeTarget = ({
  mode,
  workDir,
  mainlyFor,
}: UsherModeOptions): Target => {
  const name = `usher-mode-${mode}`
  return {
    name,
    title: `usher run --proxy-mode ${mode}: the kernel carries, Usher's process does not`,
    kind: 'usher',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: topology => modeProblem(mode, topology),
    start: order => start({ name, workDir }, mode, order),
  }
}

const iptables: Program = {
  command: 'iptables',
  versionArgs: ['--version'],
  packageName: 'iptables',
}

const nft: Program = {
  command: 'nft',
  versionArgs: ['--version'],
  packageName: 'nftables',
}

const tools: Readonly<Record<KernelMode, readonly Program[]>> = {
  nftables: [nft],
  iptables: [iptables],
  ipvs: [
    iptables,
    { command: 'ipvsadm', versionArgs: ['--version'], packageName: 'ipvsadm' },
    { command: 'ipset', versionArgs: ['--version'], packageName: 'ipset' },
  ],
}

/** Is there as soon as ip_vs is, in every network namespace. */
const ipvsFile = '/proc/net/ip_vs'

const modeProblem = async (
  mode: KernelMode,
  topology: Pick<Topology, 'kind'>,
): Promise<string> => {
  const notBuilt = usherProblem({})
  if (notBuilt !== '') return notBuilt
  if (topology.kind !== 'namespaces')
    return `mode ${mode} changes the host, so it needs network namespaces`
  // Modules are the host's, so they are not loaded from here.
  if (mode === 'ipvs' && !existsSync(ipvsFile))
    return 'no ip_vs in this kernel; where there is a module, `modprobe ip_vs` loads it'
  const reasons = await Promise.all(tools[mode].map(programProblem))
  return reasons.find(reason => reason !== '') ?? ''
}

/** No other process is in this network namespace. */
const metrics = '127.0.0.1:10249'

const start = async (
  program: UsherProgram,
  mode: KernelMode,
  order: Order,
): Promise<RunningTarget> => {
  const { lane } = order
  const running = await startUsher(program, order, {
    flags: () => [`--proxy-mode=${mode}`, `--metrics-bind-address=${metrics}`],
    vips: clusterIps(order),
  })
  const stop = async (): Promise<void> => {
    await running.stop()
    await empty(mode, lane)
  }
  const runs = await pageIn(lane, `http://${metrics}/proxyMode`)
  if (runs === mode) return { ...running, stop }
  await stop()
  throw new Error(`${program.name} fell back to ${runs}, which is measured already`)
}

/**
 * Rules outlive Usher, as they are to. Here they would serve in the name of the next one.
 * `usher cleanup` looks at each chain whose it is, which for 10 000 Services takes longer
 * than what is measured; here all are Usher's.
 */
export const empty = async (mode: KernelMode, { enter }: Lane): Promise<void> => {
  const run = (call: readonly string[], input: string): Promise<string> => {
    const [command = '', ...args] = [...enter, ...call]
    return runTool(command, args, { input, timeoutMs: emptyMs })
  }
  if (mode === 'nftables') return void (await run(['nft', 'flush', 'ruleset'], ''))
  await run(['iptables-restore'], emptyTables)
  if (mode === 'ipvs') await run([...ownCommand(), 'cleanup'], '')
}

const emptyTables = ['mangle', 'nat', 'filter']
  .map(table => `*${table}\nCOMMIT\n`)
  .join('')
const emptyMs = 120_000
