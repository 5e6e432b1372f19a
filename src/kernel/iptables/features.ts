import type { IpFamily } from '../../util/ip.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { takes } from '../xtables/try-lines.ts'

/** What the tool and the kernel of a node have, or are set to, beyond what is needed. */
export interface Features {
  /** `MASQUERADE --random-fully` (iptables 1.6.2, Linux 3.13). */
  readonly randomFully: boolean
  /** nf_conntrack_tcp_be_liberal is on: packets out of the window are not INVALID. */
  readonly conntrackLiberal: boolean
  /** `-m sctp` (the module xt_sctp): without it a rule for it would cost all others. */
  readonly sctp: boolean
  /** `-m nfacct`, with kube-proxy's counters in the kernel. */
  readonly nfacct: boolean
}

/** Of nfacct; kube-proxy 1.31 and later show them as metrics. */
export const counters = {
  invalidDropped: 'ct_state_invalid_dropped_pkts',
  localhostNodePorts: 'localhost_nps_accepted_pkts',
} as const

/**
 * Tries the tool and asks the kernel. What can be counted by nfacct is set up for it.
 * Rejects with ToolError when nothing can be tried now.
 */
export const findFeatures = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
): Promise<Features> => ({
  randomFully: await works(backend, '-j MASQUERADE --random-fully'),
  conntrackLiberal: await isLiberal(run),
  sctp: await works(backend, '-p sctp -m sctp --dport 1 -j RETURN'),
  nfacct: await countsByNfacct(run, backend, family),
})

const works = (backend: Backend, line: string): Promise<boolean> =>
  takes(backend, { nat: [line] })

/** Where it can't be read there is no conntrack yet, and it begins with 0. */
const isLiberal = async (run: RunTool): Promise<boolean> => {
  const file = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'
  const text = await run('cat', [file]).catch(orNothing('0'))
  return text.trim() !== '0'
}

const countsByNfacct = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
): Promise<boolean> => {
  // Of the two counters one is in nat, for IPv4 only.
  const names = family === 'IPv4' ? Object.values(counters) : [counters.invalidDropped]
  const listed = await run('nfacct', ['list']).catch(orNothing(undefined))
  if (listed === undefined) return false
  for (const name of names)
    if (!listed.includes(name)) await run('nfacct', ['add', name]).catch(orNothing(''))
  for (const name of names)
    if (!(await works(backend, `-m nfacct --nfacct-name ${name} -j RETURN`))) return false
  return true
}

const orNothing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (error instanceof ToolError) return instead
    throw error
  }
