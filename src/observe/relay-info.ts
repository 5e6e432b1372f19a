import type { ChosenRelay } from '../relay/make-relay.ts'
import { labelText, type OwnFamily } from './exposition.ts'

/** Which relay carries the bytes. */
export const relayInfoFamilies = ({
  name,
  workers,
  ownProcess,
}: Pick<ChosenRelay, 'name' | 'workers' | 'ownProcess'>): readonly OwnFamily[] => {
  const labels = labelText({
    relay: name,
    workers: String(workers),
    own_process: String(ownProcess !== undefined),
  })
  return [
    {
      name: 'usher_relay_info',
      type: 'gauge',
      help: 'Always 1; the labels are the relay that carries the bytes, its threads, and whether it has a process of its own.',
      samples: () => [{ suffix: '', labels, value: 1 }],
    },
  ]
}
