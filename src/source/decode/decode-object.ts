import * as v from 'valibot'
import type { Decoded } from './decoded.ts'
import { decodeMetadata, type Metadata } from './metadata.ts'
import { faultOf, problemsOf, type Fault } from './problem.ts'

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
