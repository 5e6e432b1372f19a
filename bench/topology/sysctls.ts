import type { RunTool } from '../../src/kernel/run-tool.ts'

/** A setting of one network namespace, by its path below /proc/sys/net. */
interface Sysctl {
  readonly path: string
  readonly value: string
  /** Leaves a higher figure as it is. */
  readonly atLeast?: boolean
}

/** The same in all namespaces, whatever the host they are made on has. */
const shared: readonly Sysctl[] = [
  // Tens of thousands of short connections a minute, each of which keeps its port for one.
  { path: 'ipv4/tcp_tw_reuse', value: '1' },
  { path: 'ipv4/ip_local_port_range', value: '32768 65535' },
  { path: 'core/somaxconn', value: '4096', atLeast: true },
  // Off, as most CNI plugins need it; `default` is for interfaces that come later.
  { path: 'ipv4/conf/all/rp_filter', value: '0' },
  { path: 'ipv4/conf/default/rp_filter', value: '0' },
]

const forwarding = 'ipv4/ip_forward'

/** What is set, for people. */
export const sysctlWords = shared
  .filter(({ path }) => !path.includes('/default/'))
  .map(
    ({ path, value, atLeast }) =>
      `net.${path.replaceAll('/', '.')}${atLeast === true ? ' at least ' : '='}${value}`,
  )
  .join(', ')

/**
 * Sets a namespace's sysctls; a node forwards, too. Gives those that could not be set.
 * Rejects when that is forwarding, without which there is no way to the pods.
 */
export const setSysctls = async (
  run: RunTool,
  namespace: string,
  isNode: boolean,
): Promise<readonly string[]> => {
  const wanted = isNode ? [...shared, { path: forwarding, value: '1' }] : shared
  const script = wanted.map(line).join('\n')
  const unset = await run('ip', ['netns', 'exec', namespace, '/bin/sh', '-c', script])
  const paths = unset.split('\n').filter(Boolean)
  if (paths.includes(forwarding))
    throw new Error(
      `${namespace}: net.ipv4.ip_forward can't be set, so it can't be a node`,
    )
  return paths.map(path => `net.${path.replaceAll('/', '.')}`)
}

/** By way of the shell, because sysctl(8) is not everywhere; prints what it can't set. */
const line = ({ path, value, atLeast }: Sysctl): string => {
  const file = `/proc/sys/net/${path}`
  const set = `(echo ${value} > ${file}) 2>/dev/null || echo ${path}`
  return atLeast === true ? `[ "$(cat ${file})" -ge ${value} ] || ${set}` : set
}
