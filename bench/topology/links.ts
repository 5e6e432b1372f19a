import type { LanePlan, Link } from './addresses.ts'

/**
 * Lines for `ip -batch`. Client and pods call the interface to a node by the node's name,
 * the node calls its interfaces by theirs.
 */
export const clientLines = ({ name, client, pods, clusterCidr }: LanePlan) => [
  ...neighbourLines(name, 'client', client),
  ...[clusterCidr, ...pods.map(({ subnet }) => subnet)].map(
    range => `route add ${range} via ${client.node}`,
  ),
]

/** The way back is needed without a proxy in between, and by kernel modes. */
export const podLines = (
  { name, client, pods }: LanePlan,
  pod: string,
  index: number,
) => {
  const link = linkOf(pods, index)
  return [
    ...neighbourLines(name, pod, link),
    `route add ${client.subnet} via ${link.node}`,
  ]
}

export const nodeLines = ({ client, pods }: LanePlan, names: readonly string[]) => [
  ...addressLines('client', client.node, client),
  ...names.flatMap((pod, index) => {
    const link = linkOf(pods, index)
    return addressLines(pod, link.node, link)
  }),
]

/** The pair is made from here; its other end is in the node at once. */
const neighbourLines = (node: string, own: string, link: Link): readonly string[] => [
  `link add name ${node} type veth peer name ${own} netns ${node}`,
  ...addressLines(node, link.neighbour, link),
]

const addressLines = (device: string, address: string, { prefixLength }: Link) => [
  `address add ${address}/${prefixLength} dev ${device}`,
  `link set ${device} up`,
]

const linkOf = (links: readonly Link[], index: number): Link => {
  const link = links[index]
  if (link === undefined) throw new RangeError(`pod ${index + 1} has no link`)
  return link
}
