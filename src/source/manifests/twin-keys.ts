import type * as Yaml from 'yaml'
import { show } from '../decode/printable.ts'

export interface TwinKey {
  readonly offset: number
  readonly message: string
}

/**
 * The first key that a mapping of the document has twice: YAML forbids it, and which of
 * the two its writer meant nobody knows. Takes time in proportion to the text.
 */
export const twinKey = (
  document: Yaml.Document,
  { isScalar, visit }: typeof Yaml,
): TwinKey | undefined => {
  let found: TwinKey | undefined
  visit(document, {
    Map: (_, { items }) => {
      const keys = new Set<unknown>()
      for (const { key } of items) {
        // A merge key may come more than once.
        if (!isScalar(key) || key.value === '<<') continue
        if (keys.has(key.value)) {
          const message = `the key ${show(key.value)} is given twice`
          found = { offset: key.range?.[0] ?? 0, message }
          return visit.BREAK
        }
        keys.add(key.value)
      }
      return undefined
    },
  })
  return found
}
