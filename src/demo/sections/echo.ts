import type { Protocol } from '../../model/service.ts'
import { bars, askTogether, failures, shares, type Tally } from '../tally.ts'
import { askTcpEcho, askUdpEcho } from '../clients.ts'
import { expectation, type Section } from '../expectation.ts'
import {
  backendsOf,
  servicePortOf,
  targetOf,
  textOfTarget,
  type Stage,
} from '../stage.ts'

const messages = 10

const rows = (stage: Stage, protocol: Protocol, { byBackend }: Tally) =>
  backendsOf(stage, 'echo', protocol).map(({ name }) => ({
    name: `${protocol}  ${name}`,
    count: byBackend.get(name) ?? 0,
  }))

/** TCP and UDP clients of `echo` use the same address and port number. */
export const echo = async (stage: Stage): Promise<Section> => {
  const [tcpTarget, udpTarget] = [targetOf(stage, 'echo'), targetOf(stage, 'echo', 'UDP')]
  const [tcp, udp] = await Promise.all([
    askTogether(messages, () => askTcpEcho(tcpTarget)),
    askTogether(messages, () => askUdpEcho(udpTarget)),
  ])
  const [tcpText, udpText] = [textOfTarget(tcpTarget), textOfTarget(udpTarget)]
  const where =
    tcpText === udpText
      ? `both to ${tcpText}`
      : `to ${tcpText} (TCP) and ${udpText} (UDP)`
  const counts = [...rows(stage, 'TCP', tcp), ...rows(stage, 'UDP', udp)]
  const vip = (protocol: Protocol): string =>
    servicePortOf(stage, 'echo', protocol).vips[0]?.vip ?? 'none'
  const idle = counts.find(({ count }) => count === 0)?.name
  return {
    title: 'TCP and UDP share a port number',
    lines: [
      `${messages} TCP connections and ${messages} UDP datagrams, ${where}`,
      ...bars(counts),
    ],
    expectation: expectation('all messages come back, over TCP and over UDP', [
      [tcp.failed > 0, failures(tcp, 'TCP connections')],
      [udp.failed > 0, failures(udp, 'UDP datagrams')],
      [vip('TCP') !== vip('UDP'), `TCP is at ${vip('TCP')}, UDP at ${vip('UDP')}`],
      [
        idle !== undefined,
        `${idle} got nothing; TCP: ${shares(tcp)}; UDP: ${shares(udp)}`,
      ],
    ]),
  }
}
