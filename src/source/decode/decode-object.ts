import * as v from 'valibot'
import { decodeMetadata, type Metadata } from './metadata.ts'
import { faultOf, problemsOf, type Fault } from './problem.ts'
import type { Problem } from '../../model/snapshot.ts'

/** What came of one raw object. */
export interface Decoded<T> {
  /** '' for kinds without one, and when it could not be read. */
  readonly namespace: string
  /** '' when it could not be read: then nothing but `problems` is of use. */
  readonly name: string
  /** `Service default/web`, safe to print whatever it was called. */
  readonly title: string
  /** Undefined when the object is refused (see `problems`) or not served (see `ignored`). */
  readonly object: T | undefined
  /** Beside an object: what was left out of it. It is to be served all the same. */
  readonly problems: readonly Problem[]
  /** What no API server would have taken, although it can be served. */
  readonly unheardOf: readonly Problem[]
  /** Why a sound object is not served; '' when it is. */
  readonly ignored: string
}

/** Stands in for `metadata.creationTimestamp` where an object has none. */
export type CreatedAt = (namespace: string, name: string) => number

type Schema = v.GenericSchema<unknown, unknown>

/** How one kind is decoded; see `decodeObject`. */
export interface Kind<S extends Schema, T> {
  readonly kind: string
  readonly namespaced: boolean
  /** Why an object is of no interest, asked before its shape is looked at; '' when it is. */
  ignored(metadata: Metadata, raw: unknown): string
  readonly shape: S
  /** What the shape cannot say: fields that contradict each other. */
  faults(body: v.InferOutput<S>, metadata: Metadata): readonly Fault[]
  /** What `build` leaves out of a sound object because Usher can't do it, or it is no use. */
  leftOut?(body: v.InferOutput<S>): readonly Fault[]
  /** What no API server would have taken, although it can be served. */
  unheardOf?(body: v.InferOutput<S>): readonly Fault[]
  build(body: v.InferOutput<S>, metadata: Metadata): T
}

/**
 * The steps every kind goes through: who it is, whether it matters, whether it is sound,
 * then the small object. One fault refuses the object as a whole, with all its faults.
 */
export const decodeObject = <S extends Schema, T>(
  kind: Kind<S, T>,
  raw: unknown,
): Decoded<T> => {
  const { metadata, title, faults } = decodeMetadata(kind.kind, raw, kind.namespaced)
  if (metadata === undefined) return refused('', '', title, faults)
  const { namespace, name } = metadata
  const ignored = kind.ignored(metadata, raw)
  if (ignored !== '') return { ...nothing, namespace, name, title, ignored }

  const parsed = v.safeParse(kind.shape, raw)
  const found = parsed.success ? [] : parsed.issues.map(faultOf)
  if (parsed.typed) found.push(...kind.faults(parsed.output, metadata))
  if (!parsed.success || found.length > 0) return refused(namespace, name, title, found)
  const object = kind.build(parsed.output, metadata)
  const problems = problemsOf(title, kind.leftOut?.(parsed.output) ?? [])
  const unheardOf = problemsOf(title, kind.unheardOf?.(parsed.output) ?? [])
  return { namespace, name, title, object, problems, unheardOf, ignored: '' }
}

const refused = (
  namespace: string,
  name: string,
  title: string,
  faults: readonly Fault[],
): Decoded<never> => ({
  ...nothing,
  namespace,
  name,
  title,
  problems: problemsOf(title, faults),
})

const nothing = { object: undefined, problems: [], unheardOf: [], ignored: '' }
