import type { ServicePort } from '../../model/snapshot.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { groupOf } from './compile.ts'
import { counts } from './tables.ts'

/** Of a ServicePort, in both families. */
export interface LedCount {
  /** Its name and protocol. */
  readonly labels: readonly [name: string, protocol: string]
  readonly led: number
  readonly refused: number
}

/** Whose an element of the table `counts` is. */
export class LedCounts {
  /** A ServicePort that changes is another object; to hash 20,000 takes 0.1 s. */
  readonly #groups = new WeakMap<ServicePort, readonly string[]>()

  /** Only those that clients have dialled. */
  async count(
    servicePorts: readonly ServicePort[],
    elements: Iterable<readonly [group: string, value: string]>,
  ): Promise<readonly LedCount[]> {
    const values = new Map(elements)
    const found = new Map<string, LedCount>()
    await forEachYielding(servicePorts, one => {
      for (const group of this.#groupsOf(one)) {
        const value = values.get(group)
        if (value !== undefined) add(found, one, Buffer.from(value, 'latin1'))
      }
    })
    return [...found.values()]
  }

  #groupsOf(servicePort: ServicePort): readonly string[] {
    let groups = this.#groups.get(servicePort)
    if (groups === undefined) {
      groups = (['internal', 'external'] as const).map(role => groupOf(servicePort, role))
      this.#groups.set(servicePort, groups)
    }
    return groups
  }
}

const add = (
  found: Map<string, LedCount>,
  { name, protocol }: ServicePort,
  value: Buffer,
): void => {
  const key = `${protocol} ${name}`
  const before = found.get(key)
  found.set(key, {
    labels: [name, protocol],
    led: (before?.led ?? 0) + Number(value.readBigUInt64LE(counts.led)),
    refused: (before?.refused ?? 0) + Number(value.readBigUInt64LE(counts.refused)),
  })
}
