import { firstFew, show } from '../../util/printable.ts'
import { fileFault, readBounded } from '../../util/read-text.ts'
import { suggest } from '../../util/suggest.ts'
import {
  apiVersion,
  fields,
  kind,
  type Tree,
  typeFaults,
} from '../kube-proxy/configuration.ts'
import { together } from '../kube-proxy/validate.ts'
import { type Entries, isMapping } from '../kube-proxy/field-kinds.ts'

interface Decoded {
  /** Without what stands for a default: null, and zero as kubeadm writes it. */
  readonly tree: Tree
  /** What strict decoding refuses and lenient decoding passes over. */
  readonly unknown: readonly string[]
  /** What can't be decoded at all. */
  readonly faults: readonly string[]
}

const unknownField = (path: string, name: string, known: Entries): string => {
  const meant = suggest(name, Object.keys(known))
  const hint = meant === undefined ? '' : ` (did you mean ${JSON.stringify(meant)}?)`
  return `unknown field ${show(path)}${hint}`
}

/** What is set of the fields that are known; the others go into `unknown`. */
const setFields = (
  known: Entries,
  given: Record<string, unknown>,
  before: string,
  unknown: string[],
): Tree => {
  const tree: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(given)) {
    const node = Object.hasOwn(known, name) ? known[name] : undefined
    if (node === undefined) unknown.push(unknownField(before + name, name, known))
    // As Go decodes JSON, null is the same as nothing.
    else if (value === null) continue
    else if ('isZero' in node) {
      if (!node.isZero(value)) tree[name] = value
    } else
      tree[name] = isMapping(value)
        ? setFields(node.entries, value, `${before}${name}.`, unknown)
        : value
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
const decodeConfiguration = (given: unknown): Decoded => {
  const fault = isMapping(given)
    ? kindFault(given)
    : `${show(given)} is not an object; ${right}`
  if (!isMapping(given) || fault !== '') return { tree: {}, unknown: [], faults: [fault] }
  const unknown: string[] = []
  const tree = setFields(fields, given, '', unknown)
  return { tree, unknown, faults: typeFaults(tree) }
}

export interface LoadedFile {
  /** What the file sets. */
  readonly tree: Tree
  readonly warnings: readonly string[]
}

/** Bytes. A full configuration has some two thousand. */
const mostBytes = 256 * 1024

/** For `loadFile`. Rejects with what is wrong, without the path. */
export const readConfigFile = async (path: string): Promise<string> => {
  try {
    return await readBounded(path, mostBytes)
  } catch (error) {
    throw new Error(fileFault(error), { cause: error })
  }
}

/**
 * Reads a configuration: strictly, and when that finds keys it does not know or one that
 * is there twice, leniently with a warning, as kube-proxy does it. Throws Error with all
 * that is wrong.
 */
export const loadFile = async (
  path: string,
  readFile: (path: string) => Promise<string>,
): Promise<LoadedFile> => {
  const text = await readFile(path)
  const { parseText } = await import('../kube-proxy/yaml.ts')
  const { value, doubtful } = parseText(text)
  const { tree, unknown, faults } = decodeConfiguration(value)
  if (faults.length > 0) throw new Error(`failed to decode: ${together(faults)}`)
  const strict = [...doubtful, ...unknown]
  return {
    tree,
    warnings:
      strict.length === 0
        ? []
        : [
            `Using lenient decoding as strict decoding failed: strict decoding error: ${firstFew(strict, ', ')}`,
          ],
  }
}
