import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { ModeName, ConntrackOptions, KernelOptions } from '../../mode/mode.ts'
import { cidrContains, parseCidr } from '../../util/cidr.ts'

/** A setting of the kernel's, named as `Sysctls.set` takes it. */
export interface WantedSysctl {
  readonly name: string
  readonly value: string
  /** A larger number is as good, and stays. */
  readonly atLeast?: true
  /**
   * It opens the node. `open`: while the rules of IPv4 that guard it stand; `shut`: it is not
   * wanted, and goes back to what it was if an Usher has set it.
   */
  readonly guarded?: 'open' | 'shut'
  /** Another one that this goes with: set only where that has its value, or a larger one, by now. */
  readonly needs?: string
}

export interface SysctlFacts {
  readonly mode: ModeName
  readonly cores: number
  /** Of IPv4 on any node; see KernelSettings. */
  readonly nodePortCidrs: readonly string[] | undefined
}

/**
 * Processors of the host that are online. Unlike `availableParallelism` not those of this process's cpuset:
 * what is sized by them is the whole host's (kubernetes/kubernetes, conntrack/sysctls.go of 1.37).
 */
export const onlineProcessors = (path = '/sys/devices/system/cpu/online'): number => {
  try {
    return sizeOfCpuList(readFileSync(path, 'utf8').trim())
  } catch {
    // Not Linux, or no sysfs in this container.
    return availableParallelism()
  }
}

/** Of a list like `0-3,8-11` (Linux, cputopology.rst). Throws on any other text. */
const sizeOfCpuList = (text: string): number => {
  const sizes = text.split(',').map(part => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? []
    return Number(last) - Number(first) + 1
  })
  if (sizes.every(size => size > 0)) return sizes.reduce((sum, size) => sum + size, 0)
  throw new Error(`${text} is not a list of processors`)
}

/** As kube-proxy caps it. */
const mostConnections = 1_048_576

/** What kube-proxy sets for its kernel modes. */
export const wantedSysctls = (
  { localhostNodePorts, conntrack }: KernelOptions,
  { mode, cores, nodePortCidrs }: SysctlFacts,
): readonly WantedSysctl[] => [
  // The kernel drops packets from 127.0.0.1 that leave by another device without it. It
  // opens what listens on loopback to the neighbours (CVE-2020-8558); the rules of the
  // mode drop such packets.
  {
    name: 'net/ipv4/conf/all/route_localnet',
    value: '1',
    guarded:
      mode === 'iptables' && localhostNodePorts && hasLoopback(nodePortCidrs)
        ? 'open'
        : 'shut',
  },
  ...conntrackSize(conntrack, cores),
  ...seconds('tcp_timeout_established', conntrack.tcpEstablishedMs),
  ...seconds('tcp_timeout_close_wait', conntrack.tcpCloseWaitMs),
  ...(conntrack.tcpBeLiberal
    ? [{ name: 'net/netfilter/nf_conntrack_tcp_be_liberal', value: '1' }]
    : []),
  ...seconds('udp_timeout', conntrack.udpMs),
  ...seconds('udp_timeout_stream', conntrack.udpStreamMs),
]

const conntrackSize = (
  { max, maxPerCore, min }: ConntrackOptions,
  cores: number,
): readonly WantedSysctl[] => {
  const byCores = maxPerCore === 0 ? 0 : Math.max(maxPerCore * cores, min)
  const size = Math.min(max > 0 ? max : byCores, mostConnections)
  if (size === 0) return []
  const name = 'net/netfilter/nf_conntrack_max'
  return [
    // As kube-proxy: a larger one was set for this node on purpose.
    { name, value: String(size), atLeast: true },
    {
      name: '/sys/module/nf_conntrack/parameters/hashsize',
      value: String(Math.floor(size / 4)),
      atLeast: true,
      // It is the whole host's: left alone by a network namespace where the other can't be set.
      needs: name,
    },
  ]
}

const seconds = (name: string, ms: number): readonly WantedSysctl[] =>
  ms === 0
    ? []
    : [
        {
          name: `net/netfilter/nf_conntrack_${name}`,
          // Zero would forget them at once.
          value: String(Math.max(1, Math.floor(ms / 1000))),
        },
      ]

const hasLoopback = (cidrs: readonly string[] | undefined): boolean =>
  cidrs === undefined ||
  cidrs.some(text => {
    const cidr = parseCidr(text)
    return text.startsWith('127.') || (cidr && cidrContains(cidr, '127.0.0.1'))
  })
