import { canonicalIp, joinHostPort } from '../../util/ip.ts'

export interface VirtualServer {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP'
  /** Canonical. */
  readonly address: string
  readonly port: number
}

/** The tables of ipvs in /proc/net/ip_vs. Those that go by a firewall mark are left out. */
export const virtualServers = (text: string): readonly VirtualServer[] =>
  [...text.matchAll(/^(TCP|UDP|SCTP) +(\S+):([\dA-F]{4}) /gm)].flatMap(
    ([, protocol, hex = '', port = '']) => {
      const address = addressOf(hex)
      if (address === undefined) return []
      const known = protocol as VirtualServer['protocol']
      return [{ protocol: known, address, port: Number.parseInt(port, 16) }]
    },
  )

/** `0A600001`, or `[2001:0db8:...]` with brackets. */
const addressOf = (hex: string): string | undefined => {
  if (hex.startsWith('[')) return canonicalIp(hex.slice(1, -1))
  if (!/^[\dA-F]{8}$/.test(hex)) return undefined
  const bytes = [0, 2, 4, 6].map(at => Number.parseInt(hex.slice(at, at + 2), 16))
  return bytes.join('.')
}

/** `10.96.0.1,tcp:443` and, from the sets of node ports, `*,tcp:30080`. */
const entryOf = (address: string, protocol: string, port: string): string =>
  `${address},${protocol.toLowerCase()}:${port}`

/**
 * What kube-proxy's ipsets (as `ipset save` prints them) say of virtual servers. They name
 * also what is on no kube-ipvs0: node ports, and external IPs that some other device has.
 */
export const ipsetEntries = (
  text: string,
  isKubeProxySet: (name: string) => boolean,
): ReadonlySet<string> => {
  const entries = new Set<string>()
  for (const [, set = '', entry = ''] of text.matchAll(/^add (\S+) (\S+)/gm)) {
    if (!isKubeProxySet(set)) continue
    const nodePort = /^KUBE-(?:6-)?NODE-PORT-(?:LOCAL-)?(TCP|UDP|SCTP)$/.exec(set)
    if (nodePort?.[1] !== undefined) {
      entries.add(entryOf('*', nodePort[1], entry))
      continue
    }
    const [, address = '', protocol = '', port = ''] =
      /^([\d.:a-f]+),(tcp|udp|sctp):(\d+)$/.exec(entry) ?? []
    if (address !== '') entries.add(entryOf(address, protocol, port))
  }
  return entries
}

/**
 * Whether kube-proxy made it: its address is on kube-ipvs0, or one of kube-proxy's ipsets
 * names it. kube-proxy --cleanup flushes all of ipvs instead, with what others have there.
 */
export const isKubeProxyServer = (
  { address, protocol, port }: VirtualServer,
  onDevice: ReadonlySet<string>,
  entries: ReadonlySet<string>,
): boolean =>
  onDevice.has(address) ||
  entries.has(entryOf(address, protocol, String(port))) ||
  entries.has(entryOf('*', protocol, String(port)))

export const serverText = ({ protocol, address, port }: VirtualServer): string =>
  `ipvs virtual server ${protocol} ${joinHostPort(address, port)}`

const flags = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const

/** A line for `ipvsadm -R`. */
export const deletion = ({ protocol, address, port }: VirtualServer): string =>
  `-D ${flags[protocol]} ${joinHostPort(address, port)}`
