import type { Test } from 'tap'
import type { Destination } from '../../support/net/outcome.ts'
import type { Place } from '../machine.ts'
import { addressOf, type HostName } from './network.ts'
import { servicePort, services } from './services.ts'

type Hosts = Readonly<Record<HostName, Place>>

interface Cell {
  readonly to: Destination
  /** Who answers, or `refused`. */
  readonly wanted: string
}

const families = ['IPv4', 'IPv6'] as const
const protocols = ['TCP', 'UDP'] as const

const clusterIPCells: readonly Cell[] = services.flatMap(({ clusterIP, endpoint }) =>
  families.flatMap(family =>
    protocols.map(protocol => ({
      to: { protocol, address: clusterIP[family], port: servicePort },
      wanted: endpoint ?? 'refused',
    })),
  ),
)

const nodePortCells: readonly Cell[] = services.flatMap(({ nodePort: port, endpoint }) =>
  port === undefined
    ? []
    : families.flatMap(family =>
        protocols.map(protocol => ({
          to: { protocol, address: addressOf.node[family], port },
          wanted: endpoint ?? 'refused',
        })),
      ),
)

/** Dials everything from the node and from a pod on it, and compares who answered. */
export const reachesAll = async (t: Test, hosts: Hosts): Promise<void> => {
  for (const from of ['node', 'client'] as const) {
    t.same(...(await dialAll(hosts[from], clusterIPCells)), `ClusterIPs from the ${from}`)
    t.same(...(await dialAll(hosts[from], nodePortCells)), `node ports from the ${from}`)
  }
}

/** What was met, and what was wanted, in words. */
const dialAll = async (
  from: Place,
  cells: readonly Cell[],
): Promise<[string[], string[]]> => {
  const outcomes = await Promise.all(cells.map(({ to }) => from.dial(to)))
  const met = outcomes.map(({ result, backend }) =>
    result === 'answer' ? backend : result,
  )
  return [
    cells.map(({ to }, index) => words(to, met[index])),
    cells.map(({ to, wanted }) => words(to, wanted)),
  ]
}

const words = ({ protocol, address, port }: Destination, who = ''): string =>
  `${protocol} ${address} ${port}: ${who}`
