import { ToolError } from '../run-tool.ts'

/** Something that could not be removed, and the reason. */
export interface Stay {
  readonly what: string
  readonly why: string
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
