import { existsSync, readdirSync } from 'node:fs'
import { readIfThere } from '../util/read-text.ts'

const [links, settings] = ['/sys/class/net', '/proc/sys/net/bridge']

/**
 * Why Services hang between pods of one bridge where the kernel forwards: answers that go from
 * port to port pass no rules of IP, and keep the endpoint's address (kops#5393). '' where there is
 * no bridge, or its packets do pass them.
 */
export const bridgeWarning = async (): Promise<string> => {
  const all = existsSync(links) ? readdirSync(links) : []
  const bridges = all.filter(name => existsSync(`${links}/${name}/bridge`))
  const off: string[] = []
  for (const tool of ['iptables', 'ip6tables']) {
    const files = bridges.map(name => `${links}/${name}/bridge/nf_call_${tool}`)
    const [global, ...own] = await Promise.all(
      [`${settings}/bridge-nf-call-${tool}`, ...files].map(each => readIfThere(each)),
    )
    // That of all bridges is enough, and so is each one's own; without the module there is neither.
    const passes = global?.trim() === '1' || own.every(value => value?.trim() === '1')
    if (global === undefined || !passes) off.push(`net.bridge.bridge-nf-call-${tool}=1`)
  }
  if (bridges.length === 0 || off.length === 0) return ''
  return `bridge ${bridges.join(', ')}: pods of one bridge hang when they dial each other by a Service; modprobe br_netfilter, and sysctl ${off.join(' ')}`
}
