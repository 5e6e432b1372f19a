import { systemClock } from '../../util/clock.ts'
import type { RelayName } from '../choose-relay.ts'
import type { Relay, RelayObserver } from '../relay.ts'
import type { Setup } from './messages.ts'
import type { NodeAsker } from './node-asker.ts'

type MakeRelay = (
  setup: Setup,
  observer: RelayObserver,
  nodeAsker: NodeAsker,
) => Promise<Relay>

/**
 * How a data plane makes its relay. The portable one can't wait for the parent to say who
 * is on this node: a pod's first connection in 5 s counts as an outside client's.
 */
export const makeChildRelay: Readonly<Record<RelayName, MakeRelay>> = {
  portable: async ({ limits, openFileLimit }, observer, nodeAsker) => {
    const { PortableRelay } = await import('../portable/portable-relay.ts')
    return new PortableRelay({
      clock: systemClock,
      random: Math.random,
      limits,
      observer,
      openFileLimit,
      isFromNode: address => nodeAsker.isKnownFromNode(address),
    })
  },
  linux: async ({ limits, openFileLimit, workers }, observer, nodeAsker) => {
    const { LinuxRelay } = await import('../linux/linux-relay.ts')
    return new LinuxRelay({
      clock: systemClock,
      limits,
      observer,
      openFileLimit,
      isFromNode: address => nodeAsker.isFromNode(address),
      workers,
    })
  },
}
