import type { IpFamily } from '../../util/ip.ts'
import { type Chain, newConnection, type TableName } from '../../kernel/xtables/wanted.ts'
import { userspaceChains, own } from '../../kernel/xtables/capture-names.ts'
import { hostBlock } from './packet-key.ts'

/** What holds for all VIPs of a family. */
export interface TableSettings {
  /**
   * An address of this host and of Usher's own, on which all proxy ports are. Packets that
   * come there without having been sent to a VIP are dropped.
   */
  readonly proxyAddress: string
  /**
   * Canonical CIDRs; those of the host's addresses that are in one answer node ports.
   * Undefined: all of them, loopback too.
   */
  readonly nodePortCidrs: readonly string[] | undefined
  /** Canonical CIDRs of the pods that count as this node's clients. */
  readonly podCidrs: readonly string[]
  /** TCP ports on which load balancers ask for health, let in through other people's filters. */
  readonly healthCheckPorts: readonly number[]
}

export interface FixedSettings extends TableSettings {
  /** Whether a rule can ask for a packet's socket; see `knowsSockets`. */
  readonly seesSockets?: boolean
  /** New connections wait until `release`. */
  readonly isHeld?: boolean
}

export interface FixedChain extends Chain {
  readonly table: TableName
}

const chainOf =
  (table: TableName) =>
  (name: string, lines: readonly string[]): FixedChain => ({ table, name, lines })

/** At the head of `own.begin`: everything that begins waits. */
export const holdLine = '-j DROP'

/** The chains whose rules don't depend on Services. */
export const fixedChains = (
  settings: FixedSettings,
  family: IpFamily,
): readonly FixedChain[] => [
  ...natChains(settings, family),
  ...filterChains(settings, family),
]

const natChains = (settings: TableSettings, family: IpFamily): readonly FixedChain[] => {
  const chain = chainOf('nat')
  // The proxy address is one of the host's, but no node port is on it.
  const proxy = `-d ${hostBlock(settings.proxyAddress, family)} -j RETURN`
  const nodePorts = [proxy, ...onNodePortAddresses(settings, `-j ${own.nodePorts}`)]
  const ofNode = onNodePortAddresses(settings, `-j ${own.nodePortsOfNode}`)
  const fromPods = (lines: readonly string[]): readonly string[] =>
    settings.podCidrs.flatMap(cidr => lines.map(line => `-s ${cidr} ${line}`))
  return [
    chain(userspaceChains.portalsContainer, [
      `-j ${own.portals}`,
      ...fromPods([`-j ${own.ofNode}`]),
    ]),
    chain(userspaceChains.portalsHost, [`-j ${own.portals}`, `-j ${own.ofNode}`]),
    chain(userspaceChains.nodePortContainer, [
      ...othersLoopback[family],
      ...nodePorts,
      ...fromPods(ofNode),
    ]),
    chain(userspaceChains.nodePortHost, [...nodePorts, ...ofNode]),
  ]
}

/**
 * The kernel drops what comes from elsewhere to 127.0.0.0/8, but only after PREROUTING,
 * when DNAT would have hidden it. What the node itself sends there is led by OUTPUT.
 */
const othersLoopback: Readonly<Record<IpFamily, readonly string[]>> = {
  IPv4: ['-d 127.0.0.0/8 -j RETURN'],
  IPv6: [], // ::1 is dropped before PREROUTING.
}

const filterChains = (
  settings: FixedSettings,
  family: IpFamily,
): readonly FixedChain[] => {
  const chain = chainOf('filter')
  const proxy = hostBlock(settings.proxyAddress, family)
  const local = `-m addrtype --dst-type LOCAL -j ${own.refusedNodePorts}`
  return [
    chain(userspaceChains.nonLocal, [
      `-d ${proxy} -j ${own.input}`,
      ...settings.healthCheckPorts.map(port => `-p tcp -m tcp --dport ${port} -j ACCEPT`),
      `${newConnection} -j ${own.refused}`,
      ...onNodePortAddresses(settings, `${newConnection} ${local}`),
    ]),
    chain(own.input, [
      // No way in but by a VIP.
      '-m conntrack ! --ctstate DNAT -j DROP',
      `${newConnection} -j ${own.begin}`,
      ...(settings.seesSockets === true ? onlyOurs : []),
      // Before a host's own filter with a policy of DROP.
      '-j ACCEPT',
    ]),
    ...(settings.isHeld === true ? [chain(own.begin, [holdLine])] : []),
    chain(own.output, [
      `-s ${proxy} -j ${own.silence}`,
      `${newConnection} -j ${own.refused}`,
    ]),
    chain(own.silence, silence[family]),
    chain(own.reject, [
      '-p tcp -j REJECT --reject-with tcp-reset',
      `-p udp -j REJECT --reject-with ${unreachable[family]}`,
    ]),
  ]
}

/**
 * Usher's sockets are bound to the proxy address itself. After a crash others may have its
 * ports, on all addresses: those sockets the match leaves out (iptables-extensions(8)).
 */
const onlyOurs: readonly string[] = [
  `${newConnection} -m socket -j ACCEPT`,
  `${newConnection} -j DROP`,
]

/** Once for each block, or once for all addresses. */
const onNodePortAddresses = (
  { nodePortCidrs }: TableSettings,
  rest: string,
): readonly string[] =>
  nodePortCidrs === undefined ? [rest] : nodePortCidrs.map(cidr => `-d ${cidr} ${rest}`)

/**
 * While there is no listener on a proxy port, the kernel's refusals don't get out: the client
 * asks again, and the next Usher answers. Refusing a SYN, a RST has an ACK (RFC 9293,
 * 3.10.7.1). One without tells a client that its connection is gone, which it has to hear:
 * after a reboot, or when another node had it, conntrack doesn't know that it ever stood.
 */
const neverStood =
  '-p tcp -m tcp --tcp-flags RST,ACK RST,ACK -m conntrack ! --ctstatus ASSURED -j DROP'
/**
 * Conntrack has forgotten its flow: untranslated it would answer no client, and stand in the
 * way of the client's next packet, which makes the flow whole again.
 */
const forgotten = '-m conntrack ! --ctstate DNAT -j DROP'
const silence: Readonly<Record<IpFamily, readonly string[]>> = {
  IPv4: [forgotten, neverStood, '-p icmp -m icmp --icmp-type 3 -j DROP'],
  IPv6: [forgotten, neverStood, '-p ipv6-icmp -m icmp6 --icmpv6-type 1 -j DROP'],
}

const unreachable: Readonly<Record<IpFamily, string>> = {
  IPv4: 'icmp-port-unreachable',
  IPv6: 'icmp6-port-unreachable',
}
