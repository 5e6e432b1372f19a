import { show } from '../../util/printable.ts'
import { suggest } from '../suggest.ts'
import type { Tree } from './fields.ts'
import { isMapping } from './leaf.ts'
import { apiVersion, type Fields, kind, shape } from './shape.ts'

export interface Decoded {
  readonly tree: Tree
  /** What strict decoding refuses and lenient decoding passes over. */
  readonly unknown: readonly string[]
  /** What can't be decoded at all. */
  readonly faults: readonly string[]
}

interface Findings {
  readonly unknown: string[]
  readonly faults: string[]
}

const unknownField = (path: string, name: string, fields: Fields): string => {
  const meant = suggest(name, Object.keys(fields))
  const hint = meant === undefined ? '' : ` (did you mean ${JSON.stringify(meant)}?)`
  return `unknown field ${show(path)}${hint}`
}

const decodeFields = (
  fields: Fields,
  given: Record<string, unknown>,
  before: string,
  found: Findings,
): Tree => {
  const tree: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(given)) {
    const path = before + name
    const node = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (node === undefined) found.unknown.push(unknownField(path, name, fields))
    // As Go decodes JSON, null is the same as nothing.
    else if (value === null) continue
    else if (node.kind === 'section') {
      if (isMapping(value))
        tree[name] = decodeFields(node.fields, value, `${path}.`, found)
      else found.faults.push(`${path}: ${show(value)} is not an object`)
    } else {
      const read = node.read(value)
      if (read === undefined)
        found.faults.push(`${path}: ${show(value)} is not ${node.right}`)
      else tree[name] = read
    }
  }
  return tree
}

const right = `give apiVersion: ${apiVersion} and kind: ${kind}`

/** Why this is no configuration of the one version there is; '' when it is. */
const kindFault = (given: Record<string, unknown>): string => {
  if (given['kind'] === undefined) return `the kind is missing; ${right}`
  if (given['apiVersion'] === undefined) return `the apiVersion is missing; ${right}`
  if (given['kind'] !== kind)
    return `kind ${show(given['kind'])} is not ${kind}; ${right}`
  if (given['apiVersion'] === apiVersion) return ''
  const old =
    given['apiVersion'] === 'componentconfig/v1alpha1'
      ? ' is that of kube-proxy 1.8 and older'
      : ' is not a version Usher knows'
  return `apiVersion ${show(given['apiVersion'])}${old}; ${right}`
}

/** Takes a parsed file apart. Never throws; all faults are found at once. */
export const decodeConfiguration = (given: unknown): Decoded => {
  if (!isMapping(given))
    return {
      tree: {},
      unknown: [],
      faults: [`${show(given)} is not an object; ${right}`],
    }
  const fault = kindFault(given)
  if (fault !== '') return { tree: {}, unknown: [], faults: [fault] }
  const found: Findings = { unknown: [], faults: [] }
  return { tree: decodeFields(shape, given, '', found), ...found }
}
