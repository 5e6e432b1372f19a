import { isUnsupported, ToolError } from '../run-tool.ts'

export interface Outcome {
  /** A line for each thing that was removed; in a dry run, that would be. */
  readonly gone: readonly string[]
  readonly stayed: readonly Stay[]
  /** What could not be looked for, and the reason. */
  readonly hidden: readonly Stay[]
  /** What was not looked for, because its tool is not there. */
  readonly unseen: readonly string[]
}

/**
 * Removes what all kinds find, in their order; each is tried, whatever became of the ones
 * before. Looks again at the end, so that nothing is called gone that is there.
 */
export const cleanUp = async (
  kinds: readonly Kind[],
  { dryRun }: { readonly dryRun: boolean },
): Promise<Outcome> => {
  const before = await inspectAll(kinds)
  const found = before.flatMap(one => one.found.leftovers)
  const held = before.flatMap(one => one.found.stays)
  const hidden = before.flatMap(one => one.hidden)
  const unseen = before.flatMap(one => one.unseen)
  if (dryRun) return { gone: linesOf(found), stayed: held, hidden, unseen }
  const kept: Stay[] = []
  // One after the other: a set goes only after the rules that use it.
  for (const stage of stages)
    for (const leftover of found.filter(one => one.stage === stage))
      kept.push(...(await removeOne(leftover)))
  if (linesOf(found).length === 0) return { gone: [], stayed: held, hidden, unseen }
  const after = await inspectAll(kinds)
  const still = new Set(linesOf(after.flatMap(one => one.found.leftovers)))
  const reasons = new Set([...held, ...kept].map(({ what }) => what))
  const back = [...still].filter(what => !reasons.has(what)).map(cameBack)
  const stayed = [...held, ...kept, ...back]
  const named = new Set(stayed.map(({ what }) => what))
  const gone = linesOf(found).filter(what => !named.has(what))
  return { gone, stayed, hidden, unseen }
}

const stages = ['leads', 'flows', undefined] as const

interface Inspection {
  readonly found: Found
  readonly hidden: readonly Stay[]
  readonly unseen: readonly string[]
}

const inspectAll = (kinds: readonly Kind[]): Promise<readonly Inspection[]> =>
  Promise.all(kinds.map(inspect))

const inspect = async (kind: Kind): Promise<Inspection> => {
  try {
    return { found: await kind.find(), hidden: [], unseen: [] }
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    const { message } = error
    if (isMissing(error))
      return { found: nothing, hidden: [], unseen: [`${kind.name}: ${message}`] }
    const hidden = isUnsupported(error) ? [] : [{ what: kind.name, reason: message }]
    return { found: nothing, hidden, unseen: [] }
  }
}

const removeOne = async (leftover: Leftover): Promise<readonly Stay[]> => {
  try {
    return await leftover.remove()
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    return leftover.what.map(what => ({ what, reason: error.message }))
  }
}

const linesOf = (leftovers: readonly Leftover[]): readonly string[] =>
  leftovers.flatMap(({ what }) => what)

const cameBack = (what: string): Stay => ({
  what,
  reason: 'was removed, and another program put it back at once',
})

/** Something that could not be removed, and the reason. */
export interface Stay {
  readonly what: string
  readonly reason: string
}

/** Things that go together, by one command or one transaction. */
export interface Leftover {
  /**
   * `leads`: it leads packets somewhere, and goes before all others; `flows`: what the kernel
   * remembers by it goes next. Undefined: all the rest, which may keep an address silent.
   */
  readonly stage?: 'leads' | 'flows'
  /** A line for each thing, as `ipset KUBE-CLUSTER-IP`. */
  readonly what: readonly string[]
  /**
   * Removes them, and gives those that stayed. Rejects (ToolError) when all of them did.
   */
  remove(): Promise<readonly Stay[]>
}

export interface Found {
  readonly leftovers: readonly Leftover[]
  /** What is in use by others. */
  readonly stays: readonly Stay[]
}

/** One kind of thing that Usher or kube-proxy leaves on a node. */
export interface Kind {
  /** As in `ipsets`; stands for what is there when that could not be looked at. */
  readonly name: string
  /**
   * What is there, and only what is surely theirs. Changes nothing. Rejects with ToolError
   * when that can't be found out.
   */
  find(): Promise<Found>
}

export const nothing: Found = { leftovers: [], stays: [] }

export const isMissing = (error: unknown): boolean =>
  error instanceof ToolError && error.failure === 'missing'

/** The array in what a tool printed as JSON; an empty one for nothing at all. */
export const jsonArray = (text: string): readonly unknown[] => {
  if (text.trim() === '') return []
  const parsed: unknown = JSON.parse(text)
  return Array.isArray(parsed) ? (parsed as readonly unknown[]) : []
}

/** A member of a decoded object; undefined when it has none, or is no object. */
export const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined
