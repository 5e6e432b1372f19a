import type { VipRule } from '../vip-rule.ts'
import { clientsChain, guards } from './clients.ts'
import { protocolNumber } from '../../kernel/nft/words.ts'
import { forEachYielding } from '../../util/yielding.ts'

/** The sets and maps whose elements follow from the rules. */
export type SetName =
  | 'vips'
  | 'vips-outside'
  | 'vips-from-node'
  | 'node-ports'
  | 'node-ports-outside'
  | 'node-ports-from-node'
  | 'guarded'
  | 'cluster-ips'

export interface Element {
  readonly set: SetName
  readonly key: string
  /** What a map gives for the key; '' in a set. */
  readonly value: string
}

/**
 * The elements that one rule alone stands for. `cluster-ips` is not among them, because
 * rules share its elements.
 */
export const elementsOf = (rule: VipRule): readonly Element[] => {
  const { address, protocol, port, to, outside, fromNode, allowedClients } = rule
  const service = `${protocolNumber[protocol]} . ${port}`
  const key = address === undefined ? service : `${address} . ${service}`
  const sets = address === undefined ? nodePortSets : vipSets
  const elements: Element[] = []
  if (address !== undefined && guards(allowedClients)) {
    elements.push({ set: 'guarded', key, value: `jump ${clientsChain(allowedClients)}` })
  }
  if (outside === 'forward' || fromNode === 'forward') {
    elements.push({ set: sets.forward, key, value: `${to.address} . ${to.port}` })
  }
  if (outside !== 'forward') {
    elements.push({ set: sets.outside, key, value: verdicts[outside] })
  }
  if (fromNode !== 'forward') {
    elements.push({ set: sets.fromNode, key, value: verdicts[fromNode] })
  }
  return elements
}

const vipSets = {
  forward: 'vips',
  outside: 'vips-outside',
  fromNode: 'vips-from-node',
} as const

const nodePortSets = {
  forward: 'node-ports',
  outside: 'node-ports-outside',
  fromNode: 'node-ports-from-node',
} as const

const verdicts = { reject: 'goto refuse', drop: 'drop' } as const

interface Change {
  gone?: string
  come?: string
}

/** Elements to take out and to put in, of which only true changes reach the kernel. */
export class ElementChanges {
  readonly #sets = new Map<SetName, Map<string, Change>>()

  gone({ set, key, value }: Element): void {
    this.#change(set, key).gone = value
  }

  come({ set, key, value }: Element): void {
    this.#change(set, key).come = value
  }

  /**
   * The commands for nft, '' when nothing changes. What changes its value is taken out
   * and put in again, for nft has no word for it; in one transaction nobody sees it gone.
   */
  async text(table: string): Promise<string> {
    const commands: string[] = []
    // All that goes first, so that nothing that comes is there already.
    for (const verb of ['delete', 'add'] as const) {
      for (const [set, changes] of this.#sets) {
        const list = await elementList(changes, verb)
        if (list !== '') commands.push(`${verb} element ${table} ${set} {${list} }\n`)
      }
    }
    return commands.join('')
  }

  /** By how many elements each set grows. */
  *growth(): Iterable<readonly [SetName, number]> {
    for (const [set, changes] of this.#sets) {
      let growth = 0
      for (const { gone, come } of changes.values()) {
        growth += (come === undefined ? 0 : 1) - (gone === undefined ? 0 : 1)
      }
      yield [set, growth]
    }
  }

  #change(set: SetName, key: string): Change {
    let changes = this.#sets.get(set)
    if (changes === undefined) this.#sets.set(set, (changes = new Map()))
    let change = changes.get(key)
    if (change === undefined) changes.set(key, (change = {}))
    return change
  }
}

const elementList = async (
  changes: ReadonlyMap<string, Change>,
  verb: 'delete' | 'add',
): Promise<string> => {
  const parts: string[] = []
  await forEachYielding(changes, ([key, { gone, come }]) => {
    if (gone === come || (verb === 'delete' ? gone : come) === undefined) return
    const value = verb === 'delete' || come === '' ? '' : ` : ${come}`
    parts.push(`\n\t${key}${value}`)
  })
  return parts.join(',')
}
