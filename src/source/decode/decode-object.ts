import * as v from 'valibot'
import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { decodeMetadata, type Metadata } from './metadata.ts'
import { faultOf, problemsOf, type Fault } from './problem.ts'

/** What came of one raw object of a kind that Usher knows. */
export interface DecodedObject {
  /** `Service default/web`: no two objects have the same; '' when it has no usable name. */
  readonly key: string
  /** The same, or as near to it as can be printed when the name is not usable. */
  readonly title: string
  /** What it puts into the world: nothing when it is refused or ignored. */
  readonly changes: readonly Change[]
  /** Why it is refused; beside changes, what was left out of them. */
  readonly problems: readonly Problem[]
  /** What no API server would have taken, although it can be served. */
  readonly invalid: readonly Problem[]
  /** Why a sound object is not served; '' when it is. */
  readonly ignored: string
}

export type Decode = (raw: unknown) => DecodedObject

type Schema = v.GenericSchema<unknown, unknown>

/** How one kind is decoded. */
interface Kind<S extends Schema> {
  readonly kind: string
  readonly namespaced: boolean
  /** Why an object is of no interest, asked before its shape is looked at; '' when it is. */
  ignored?(metadata: Metadata, raw: unknown): string
  readonly shape: S
  /** What the shape cannot say: fields that contradict each other. */
  faults?(body: v.InferOutput<S>, metadata: Metadata): readonly Fault[]
  /** What `changes` leaves out of a sound object because Usher can't do it, or it is no use. */
  leftOut?(body: v.InferOutput<S>, metadata: Metadata): readonly Fault[]
  /** What no API server would have taken, although it can be served. */
  invalid?(body: v.InferOutput<S>): readonly Fault[]
  changes(body: v.InferOutput<S>, metadata: Metadata): readonly Change[]
}

/**
 * The steps every kind goes through: its name, whether it matters, whether it is sound,
 * then the small object. One fault refuses the object as a whole, with all its faults.
 */
export const decoderOf =
  <S extends Schema>(kind: Kind<S>): Decode =>
  raw => {
    const { metadata, title, faults } = decodeMetadata(kind.kind, raw, kind.namespaced)
    const nothing = { title, changes: [], problems: [], invalid: [], ignored: '' }
    if (metadata === undefined)
      return { ...nothing, key: '', problems: problemsOf(title, faults) }
    const key = title
    const ignored = kind.ignored?.(metadata, raw) ?? ''
    if (ignored !== '') return { ...nothing, key, ignored }

    const parsed = v.safeParse(kind.shape, raw)
    const found = parsed.success ? [] : parsed.issues.map(faultOf)
    if (parsed.typed) found.push(...(kind.faults?.(parsed.output, metadata) ?? []))
    if (!parsed.success || found.length > 0)
      return { ...nothing, key, problems: problemsOf(title, found) }
    return {
      key,
      title,
      changes: kind.changes(parsed.output, metadata),
      problems: problemsOf(title, kind.leftOut?.(parsed.output, metadata) ?? []),
      invalid: problemsOf(title, kind.invalid?.(parsed.output) ?? []),
      ignored: '',
    }
  }
