import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { KnownSet, KnownState, Touched } from './known-state.ts'
import {
  creation,
  maxEntries,
  type SetKind,
  setKinds,
  setName,
  setType,
  spareName,
  vipSetKinds,
} from './set-names.ts'
import type { WantedState } from './wanted-state.ts'

/** What makes sets what they should be. */
export interface SetChanges {
  /** For `ipset restore -exist`. */
  readonly first: readonly string[]
  /**
   * The same, once virtual servers are as they should be: by these entries those that were
   * made for a Service are known, also to the next process.
   */
  readonly last: readonly string[]
  /** Sets that more would have to go into than fit. */
  readonly tooSmall: readonly SetKind[]
}

const namesServers: ReadonlySet<SetKind> = new Set([
  ...vipSetKinds,
  'NODE-PORT-TCP',
  'NODE-PORT-UDP',
])

/** The difference, which `known` has from then on. */
export const setChanges = async (
  family: IpFamily,
  touched: Touched,
  wanted: WantedState,
  known: KnownState,
): Promise<SetChanges> => {
  const [made, removed, last]: [string[], string[], string[]] = [[], [], []]
  const tooSmall: SetKind[] = []
  for (const kind of setKinds) {
    const name = setName(family, kind)
    const [is, should] = [knownSet(known, kind), wanted.set(kind)]
    const words = creation(family, setType(kind))
    const before = is.creation
    if (before === undefined) made.push(`create ${name} ${words}`)
    const isReplaced = before !== undefined && before !== words
    // Rules may be using it: no packet is to see it empty.
    const spare = spareName(family)
    if (isReplaced) {
      is.entries = new Set()
      made.push(`create ${spare} ${words}`)
    }
    is.creation = words
    const to = isReplaced ? spare : name
    const gone: string[] = []
    await forEachYielding(touched.sets.get(kind) ?? [], entry => {
      if (!should.has(entry)) {
        if (is.entries.delete(entry)) gone.push(`del ${name} ${entry}`)
      } else if (!is.entries.has(entry) && is.entries.size < maxEntries) {
        is.entries.add(entry)
        made.push(`add ${to} ${entry}`)
      }
    })
    if (isReplaced) made.push(`swap ${spare} ${name}`, `destroy ${spare}`)
    if (namesServers.has(kind)) last.push(...gone)
    else removed.unshift(...gone)
    if (should.size > is.entries.size) tooSmall.push(kind)
  }
  return { first: [...made, ...removed], last, tooSmall }
}

const knownSet = ({ sets }: KnownState, kind: SetKind): KnownSet => {
  const is = sets.get(kind) ?? { creation: undefined, entries: new Set<string>() }
  sets.set(kind, is)
  return is
}
