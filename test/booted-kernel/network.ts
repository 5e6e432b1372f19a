import { type Agents, serveBackends } from '../support/net/cluster-agents.ts'
import { otherHosts } from '../support/net/cluster-net.ts'
import { hostSetup, nodeSetup, proxyArp } from '../support/net/routes.ts'
import type { Machine } from './machine.ts'

/** The small cluster of other tests; its node is the machine itself. */
export const makeNetwork = async (machine: Machine): Promise<Agents> => {
  await machine.load('veth')
  const path = '/mnt/network.sh'
  await machine.write(path, script)
  await machine.run('sh', '-e', path)
  const entered = await Promise.all(
    otherHosts.map(async host => [host, await machine.enter(host)] as const),
  )
  const agents = Object.fromEntries([['node', machine.node], ...entered]) as Agents
  await serveBackends(agents)
  return agents
}

const batch = (ip: string, lines: readonly string[]): string =>
  `${ip} -batch - <<'END'\n${lines.join('\n')}\nEND`

const sysctl = (settings: readonly string[]): string =>
  `sysctl -qw ${settings.map(each => `'${each}'`).join(' ')}`

const node = nodeSetup(host => host)

/** In one program: to start one takes the machine longer than most do. */
const script = [
  sysctl(node.sysctls),
  batch(
    'ip',
    otherHosts.map(host => `netns add ${host}`),
  ),
  ...otherHosts.map(host => `ip netns exec ${host} ${sysctl(hostSetup(host).sysctls)}`),
  batch('ip', node.links),
  sysctl(proxyArp),
  ...otherHosts.map(host =>
    batch(`ip -n ${host}`, ['link set lo up', ...hostSetup(host).links]),
  ),
].join('\n')
