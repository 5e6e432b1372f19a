import type { Machine, Place } from '../machine.ts'

/** The node, a pod that dials, and a pod that answers. */
export type HostName = 'node' | 'client' | 'backend'

export interface Addresses {
  readonly IPv4: string
  readonly IPv6: string
}

/** Private and documentation ranges only (RFC 1918, 4193, 5737, 3849). */
export const addressOf: Readonly<Record<HostName, Addresses>> = {
  node: { IPv4: '203.0.113.1', IPv6: '2001:db8:1::1' },
  client: { IPv4: '10.244.1.11', IPv6: 'fd10:244:1::11' },
  backend: { IPv4: '10.244.1.21', IPv6: 'fd10:244:1::21' },
}

/** Where each of the three answers, by TCP and UDP, with its name. */
export const answerPort = 8080

const pods = ['client', 'backend'] as const

/** The three, each of whom dials and answers. */
export const makeNetwork = async (
  machine: Machine,
): Promise<Readonly<Record<HostName, Place>>> => {
  await machine.load('veth')
  await machine.write('/proc/sys/net/ipv4/ip_forward', '1')
  await machine.write('/proc/sys/net/ipv6/conf/all/forwarding', '1')
  await machine.write('/proc/sys/net/ipv6/conf/default/accept_dad', '0')
  await batch(machine, ['ip'], nodeLinks)
  for (const pod of pods) await batch(machine, ['ip', '-n', pod], podLinks(pod))
  const [client, backend] = await Promise.all(pods.map(pod => machine.enter(pod)))
  const hosts = { node: machine.node, client: client!, backend: backend! }
  for (const name of ['node', ...pods] as const) {
    const { IPv4, IPv6 } = addressOf[name]
    await hosts[name].serve(name, [IPv4, IPv6], answerPort)
  }
  return hosts
}

const batch = async (
  machine: Machine,
  [command = '', ...args]: readonly string[],
  lines: readonly string[],
): Promise<void> => {
  await machine.write('/mnt/batch', `${lines.join('\n')}\n`)
  await machine.run(command, ...args, '-batch', '/mnt/batch')
}

const { node } = addressOf
/** The node's on each veth: no other address of its own is asked for there. */
const gateway = 'fe80::1'

/** The way out is a cable that leads nowhere: without any, the node could not dial VIPs. */
const nodeLinks: readonly string[] = [
  'link add outside type veth peer name cable',
  'link set outside up',
  'link set cable up',
  `address add ${node.IPv4}/24 dev outside`,
  `address add ${node.IPv6}/64 dev outside nodad`,
  `route add default dev outside src ${node.IPv4}`,
  `route add ::/0 dev outside src ${node.IPv6}`,
  ...pods.flatMap(pod => [
    `netns add ${pod}`,
    `link add ${pod} type veth peer name eth0 netns ${pod}`,
    `link set ${pod} up`,
    `address add ${gateway}/64 dev ${pod} nodad`,
    `route add ${addressOf[pod].IPv4}/32 dev ${pod} src ${node.IPv4}`,
    `route add ${addressOf[pod].IPv6}/128 dev ${pod} src ${node.IPv6}`,
  ]),
]

/** As network plugins do it: everything goes to the node. */
const podLinks = (pod: 'client' | 'backend'): readonly string[] => [
  'link set lo up',
  'link set eth0 up',
  `address add ${addressOf[pod].IPv4}/32 dev eth0`,
  `address add ${addressOf[pod].IPv6}/128 dev eth0 nodad`,
  `route add ${node.IPv4} dev eth0`,
  `route add default via ${node.IPv4}`,
  `route add ::/0 via ${gateway} dev eth0`,
]
