import type * as Yaml from 'yaml'
import { printable } from '../decode/printable.ts'
import type { RawDocument } from './raw-document.ts'
import { twinKey } from './twin-keys.ts'
import { yamlDocuments } from './yaml-documents.ts'

/**
 * The documents of a YAML stream, each when it is asked for. Never rejects. Bounded
 * against documents that grow when read: aliases are counted, and expanded a hundred
 * times at most.
 */
export async function* parseYaml(text: string): AsyncGenerator<RawDocument> {
  // Loaded here because a process without manifests needs none of it.
  const yaml = await import('yaml')
  const lines = new yaml.LineCounter()
  let number = 1
  try {
    for (const document of yamlDocuments(text, yaml, lines)) {
      yield rawDocument(document, number, lines, yaml)
      number++
    }
  } catch (error) {
    yield failed(number, error)
  }
}

const rawDocument = (
  document: Yaml.Document,
  number: number,
  lines: Yaml.LineCounter,
  yaml: typeof Yaml,
): RawDocument => {
  const at = (offset: number, message: string): RawDocument => {
    const error = `line ${lines.linePos(offset).line}: ${printable(message, 300)}`
    return { number, value: undefined, error }
  }
  const [fault] = document.errors
  if (fault !== undefined) return at(fault.pos[0], fault.message)
  const twin = twinKey(document, yaml)
  if (twin !== undefined) return at(twin.offset, twin.message)
  try {
    return { number, value: document.toJS({ maxAliasCount: 100 }), error: '' }
  } catch (error) {
    return failed(number, error)
  }
}

const failed = (number: number, error: unknown): RawDocument => {
  const message = error instanceof Error ? error.message : String(error)
  return { number, value: undefined, error: printable(message, 300) }
}
