import type * as v from 'valibot'
import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { decodeMetadata, type Metadata } from './metadata.ts'
import { soundParts } from './part.ts'
import { problemsOf, type Fault } from './problem.ts'

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
  /** Nothing of what matters could be read, so that an earlier version is to stand. */
  readonly unread: boolean
  /** What no API server would have taken, although it can be served. */
  readonly invalid: readonly Problem[]
  /** Why a sound object is not served; '' when it is. */
  readonly ignored: string
}

/** `strict`: what no API server would have taken is left out. */
export type Decode = (raw: unknown, strict?: boolean) => DecodedObject

type Schema = v.GenericSchema<unknown, unknown>

/** How one kind is decoded. */
interface Kind<S extends Schema> {
  readonly kind: string
  readonly namespaced: boolean
  /** Why an object is of no interest, asked before its shape is looked at; '' when it is. */
  ignored?(metadata: Metadata, raw: unknown): string
  readonly shape: S
  /** What the shape cannot say: fields that contradict each other. Each costs its part. */
  faults?(body: v.InferOutput<S>, metadata: Metadata, raw: unknown): readonly Fault[]
  /** What `changes` leaves out of a sound object because Usher can't do it, or it is no use. */
  leftOut?(body: v.InferOutput<S>, metadata: Metadata): readonly Fault[]
  /** What no API server would have taken, although it can be served. */
  invalid?(body: v.InferOutput<S>): readonly Fault[]
  /** Whether all was left out without which nothing can be served. */
  unread?(body: v.InferOutput<S>): boolean
  changes(body: v.InferOutput<S>, metadata: Metadata): readonly Change[]
}

/**
 * The steps every kind goes through: its name, whether it matters, what of it is sound, then
 * the small object. A bad value costs the part that it is in, with one problem; the object as
 * a whole only where it has no name, or that part is all of it.
 */
export const decoderOf =
  <S extends Schema>(kind: Kind<S>): Decode =>
  (raw, strict = false) => {
    const { metadata, title, faults } = decodeMetadata(kind.kind, raw, kind.namespaced)
    const nothing = { title, changes: [], problems: [], invalid: [], ignored: '' }
    if (metadata === undefined)
      return { ...nothing, key: '', problems: problemsOf(title, faults), unread: true }
    const key = title
    const ignored = kind.ignored?.(metadata, raw) ?? ''
    if (ignored !== '') return { ...nothing, key, ignored, unread: false }

    const invalidOf = (one: v.InferOutput<S>) => kind.invalid?.(one) ?? []
    const found = soundParts(kind.shape, raw, one => [
      ...(kind.faults?.(one, metadata, raw) ?? []),
      ...(strict ? invalidOf(one) : []),
    ])
    const { body } = found
    const leftOut = body === undefined ? [] : (kind.leftOut?.(body, metadata) ?? [])
    // What is wrong with labels has been reported with the name.
    const isNew = ({ field }: Fault) => !faults.some(one => field.startsWith(one.field))
    const own = [...found.faults, ...leftOut].filter(isNew)
    const problems = problemsOf(title, [...faults, ...own])
    if (body === undefined) return { ...nothing, key, problems, unread: true }
    return {
      key,
      title,
      changes: kind.changes(body, metadata),
      problems,
      unread: kind.unread?.(body) ?? false,
      invalid: problemsOf(title, strict ? [] : invalidOf(body)),
      ignored: '',
    }
  }
