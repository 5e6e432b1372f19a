import { printable } from '../../util/printable.ts'
import { twinKey, yamlDocuments } from '../../util/yaml-documents.ts'

export interface ParsedText {
  readonly value: unknown
  /** What is wrong but can be read all the same: a key given twice. */
  readonly doubtful: readonly string[]
}

/**
 * The first document of a YAML text; JSON is YAML too. As kube-proxy does it, documents
 * after the first are passed over. Throws Error with the reason, and where it can the line.
 */
export const parseText = async (text: string): Promise<ParsedText> => {
  // Loaded here because most processes have no configuration file.
  const yaml = await import('yaml')
  const lines = new yaml.LineCounter()
  const [document] = yamlDocuments(text, yaml, lines)
  if (document === undefined) throw new Error('the file is empty')
  const line = (offset: number): string => `line ${lines.linePos(offset).line}`
  const [fault] = document.errors
  if (fault !== undefined)
    throw new Error(`${line(fault.pos[0])}: ${printable(fault.message, 300)}`)
  const twin = twinKey(document, yaml)
  return {
    value: document.toJS({ maxAliasCount: 100 }),
    doubtful: twin === undefined ? [] : [`${line(twin.offset)}: ${twin.message}`],
  }
}
