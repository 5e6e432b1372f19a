import type { Test } from 'tap'
import { addressOf, type HostName } from '../../support/net/addresses.ts'
import type { Agents } from '../../support/net/cluster-agents.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import type { Outcome, Result } from '../../support/net/outcome.ts'
import { type ProxyPort, proxyPortsOf } from './proxy-ports.ts'

interface Door extends ProxyPort {
  readonly from: HostName
}

const strangers: readonly HostName[] = ['outside', 'pod-1', 'pod-2', 'backend-3']

/** Proxy ports are not a side door: who was not captured can't get at them. */
export const doorsAreClosed = async (
  t: Test,
  agents: Agents,
  usher: NodeUsher,
): Promise<void> => {
  const proxyPorts = await proxyPortsOf(usher)
  t.ok(proxyPorts.length > 4, `there are proxy ports: ${proxyPorts.length}`)
  const doors: readonly Door[] = [
    ...proxyPorts.flatMap(proxyPort =>
      strangers.map(from => Object.assign({ from }, proxyPort)),
    ),
    ...proxyPorts.map(onNodeAddress),
  ]
  const open = await inParallel(512, doors, async door => {
    const timeoutMs = expected(door) === 'timeout' ? 400 : 5000
    const outcome = await agents[door.from].dial(door, timeoutMs)
    return outcome.result === expected(door) ? [] : said(door, outcome)
  })
  const lines = open.flat()
  t.comment(lines.join('\n'))
  t.equal(lines.length, 0, `none of ${doors.length} doors is open`)
}

/** Nobody listens there. */
const onNodeAddress = (proxyPort: ProxyPort): Door => ({
  ...proxyPort,
  from: 'outside',
  address: addressOf.node[proxyPort.family],
})

const expected = ({ family, address }: Door): Result =>
  address === addressOf.node[family] ? 'refused' : 'timeout'

const said = ({ from, protocol, address, port }: Door, { result }: Outcome): string =>
  `${protocol} ${address} ${port} from ${from}: ${result}`
