import { loadYaml } from '../util/yaml-documents.ts'
import { visible } from './io.ts'

// What `-o json` and `-o yaml` print: names and messages come from files and servers, and a
// terminal may be what reads them.

/** What JSON and YAML leave as it is, and a terminal does not: DEL, C1, the bidirectional overrides. */
const unsafe = /[\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g

export const jsonText = (document: unknown, indent?: number): string =>
  JSON.stringify(document, null, indent).replaceAll(unsafe, visible)

export const yamlText = async (object: unknown): Promise<string> => {
  const { Document, visit } = await loadYaml()
  const document = new Document(object)
  visit(document, {
    // Only in double quotes are there escapes.
    Scalar: (_key, node) => {
      if (typeof node.value === 'string' && node.value.search(unsafe) >= 0)
        node.type = 'QUOTE_DOUBLE'
    },
  })
  return document.toString().replaceAll(unsafe, visible)
}

/** One whole document. */
export const documentText = async (
  document: object,
  output: 'json' | 'yaml',
): Promise<string> =>
  output === 'json' ? `${jsonText(document, 2)}\n` : yamlText(document)
