import type { ManifestSet } from './manifest-set.ts'
import type { SourceObject } from '../diff.ts'

/** To the reader: what to read, then one `more` for each part of what it has found. */
export type ReaderOrder =
  { readonly kind: 'read'; readonly paths: readonly string[] } | { readonly kind: 'more' }

/**
 * From the reader: parts of a set, so small that taking one in does not hold up who asked,
 * and what remains of the set at the end.
 */
export type ReaderReport =
  | {
      readonly kind: 'part'
      readonly objects: readonly SourceObject[]
      readonly refused: readonly string[]
    }
  | { readonly kind: 'end'; readonly rest: Omit<ManifestSet, 'objects' | 'refused'> }

/** `createdAt` of a Service that does not say; whoever gets the set has the numbers. */
export const notSaid = Number.NaN
