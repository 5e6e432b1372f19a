import * as yaml from 'yaml'
import { printable } from '../../util/printable.ts'
import { twinKeys, yamlDocuments } from '../../util/yaml-documents.ts'
import type { KubeProxyConfiguration } from './configuration.ts'

// Loaded only where there is a file: most processes have none, and need no YAML.

export interface ParsedText {
  readonly value: unknown
  /** What is wrong but can be read all the same: a key given twice. */
  readonly doubtful: readonly string[]
}

/**
 * The first document of a YAML text; JSON is YAML too. As kube-proxy does it, documents
 * after the first are passed over. Throws Error with the reason, and where it can the line.
 */
export const parseText = (text: string): ParsedText => {
  const lines = new yaml.LineCounter()
  const [document] = yamlDocuments(text, yaml, lines)
  if (document === undefined) throw new Error('the file is empty')
  const line = (offset: number): string => `line ${lines.linePos(offset).line}`
  const [fault] = document.errors
  if (fault !== undefined)
    throw new Error(`${line(fault.pos[0])}: ${printable(fault.message, 300)}`)
  const [twin] = twinKeys(document, yaml)
  return {
    value: document.toJS({ maxAliasCount: 100 }),
    doubtful: twin === undefined ? [] : [`${line(twin.offset)}: ${twin.message}`],
  }
}

/**
 * The configuration as a file, keys in alphabetical order as kube-proxy writes them. What
 * YAML 1.1 would take for something else than text is quoted: other tools read it so.
 */
export const configurationYaml = (configuration: KubeProxyConfiguration): string =>
  yaml.stringify(configuration, {
    version: '1.1',
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    aliasDuplicateObjects: false,
  })
