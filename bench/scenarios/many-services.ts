import type { Goal } from '../record/record.ts'
import type { BenchService } from '../services.ts'
import { connections } from './connections.ts'
import { awaited, nameOf, services } from './first-connection.ts'
import { ledClients } from './metrics.ts'
import type { Scenario } from './scenario.ts'

const modes = ['direct', 'usher-mode-nftables', 'usher-mode-iptables', 'usher-mode-ipvs']

/** What a new connection costs where there are many other Services. */
const manyServices = (
  count: number,
  targets: readonly string[],
  goals: readonly Goal[],
): Scenario => {
  // In the middle: rules that are walked through are half as long there as they get.
  const dialled = nameOf(count / 2)
  const isDialled = ({ name }: BenchService): boolean => name === dialled
  return {
    name: `connections-${count}`,
    group: 'connections',
    title: `${connections.title}; to one of ${count.toLocaleString('en-US')} Services`,
    about:
      'New connections to one Service among many. Beside those of `connections` they tell whether a mode goes through all Services to find it.',
    metrics: connections.metrics,
    goals,
    targets,
    // The first has the address that `connections` dials. For connections to another one, with the
    // same endpoints, the kernel would have to find ports that none of those had.
    services: backends => {
      const all = services(count, backends)
      return [...all.filter(isDialled), ...all.filter(one => !isDialled(one))]
    },
    awaited: awaited(count),
    expectedSeconds: connections.expectedSeconds,
    run: (run, prepared) =>
      connections.run({ ...run, to: () => run.to(dialled) }, prepared),
  }
}

/** 20,000 addresses of the host would take long to assign. */
const leading = ['usher-connect-time', 'usher-connect-time+nftables']

/** Those of iptables mode would take minutes to start with the larger number. */
export const manyServicesScenarios: readonly Scenario[] = [
  manyServices(5000, modes, [
    {
      target: 'usher-mode-nftables',
      metric: 'rate',
      to: 'usher-mode-iptables',
      atLeast: 1.3,
    },
  ]),
  manyServices(
    20_000,
    ['direct', 'usher-mode-nftables', ...leading],
    ledClients(0.95, leading),
  ),
]
