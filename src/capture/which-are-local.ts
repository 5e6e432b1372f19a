import type { ServicePort } from '../model/snapshot.ts'
import { forEachYielding } from '../util/yielding.ts'
import type { LocalAddresses } from './local-addresses.ts'

/** How many addresses are probed at the same time; each needs a descriptor. */
const probesAtOnce = 32

/** The VIPs of these ServicePorts that are addresses of this host. */
export const whichAreLocal = async (
  localAddresses: Pick<LocalAddresses, 'has'>,
  servicePorts: readonly ServicePort[],
): Promise<ReadonlySet<string>> => {
  const addresses = new Set<string>()
  for (const { vips } of servicePorts) {
    for (const { address } of vips) addresses.add(address)
  }
  const local = new Set<string>()
  await forEachYielding(batches(addresses, probesAtOnce), async batch => {
    await Promise.all(
      batch.map(async address => {
        if (await localAddresses.has(address)) local.add(address)
      }),
    )
  })
  return local
}

function* batches<T>(items: Iterable<T>, size: number): Iterable<readonly T[]> {
  let batch: T[] = []
  for (const item of items) {
    batch.push(item)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
