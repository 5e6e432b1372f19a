import type { RelayStatus } from './status.ts'
import { labelText, type OwnFamily } from './exposition.ts'

/** Which relay carries the bytes. */
export const relayInfoFamilies = ({
  name,
  workers,
  supervised,
}: Pick<RelayStatus, 'name' | 'workers' | 'supervised'>): readonly OwnFamily[] => {
  const labels = labelText({
    relay: name,
    workers: String(workers),
    supervised: String(supervised),
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
