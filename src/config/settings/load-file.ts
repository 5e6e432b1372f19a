import { readBounded } from '../../util/read-text.ts'
import { decodeConfiguration } from '../kube-proxy/decode.ts'
import { together } from '../kube-proxy/field-error.ts'
import type { Tree } from '../kube-proxy/fields.ts'
import { parseText } from '../kube-proxy/parse-text.ts'

export interface LoadedFile {
  /** What the file gives. */
  readonly tree: Tree
  readonly warnings: readonly string[]
}

/** Bytes. A full configuration has some two thousand. */
const mostBytes = 256 * 1024

/** For `loadFile`. */
export const readConfigFile = (path: string): Promise<string> =>
  readBounded(path, mostBytes)

/**
 * Reads a configuration: strictly, and when that finds keys it does not know or one that
 * is there twice, leniently with a warning, as kube-proxy does it. Throws Error with all
 * that is wrong.
 */
export const loadFile = async (
  path: string,
  readFile: (path: string) => Promise<string>,
): Promise<LoadedFile> => {
  const { value, doubtful } = await parseText(await readFile(path))
  const { tree, unknown, faults } = decodeConfiguration(value)
  if (faults.length > 0) throw new Error(`failed to decode: ${together(faults)}`)
  const strict = [...doubtful, ...unknown]
  return {
    tree,
    warnings:
      strict.length === 0
        ? []
        : [
            `Using lenient decoding as strict decoding failed: strict decoding error: ${strict.join(', ')}`,
          ],
  }
}
