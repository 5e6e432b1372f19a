import type * as Yaml from 'yaml'
import { printable } from '../../util/printable.ts'
import { twinKeys, yamlDocuments } from '../../util/yaml-documents.ts'
import { messageOf } from '../../util/usher-error.ts'

/** The documents of a file, JSON when its name ends so, else YAML. Never rejects. */
export async function* parseDocuments(
  path: string,
  text: string,
): AsyncGenerator<RawDocument> {
  // What a writer leaves that was interrupted, or that found the disk full. To take it
  // for "no Services" would take down everything the file stood for.
  if (text.trim() === '') yield { number: 1, value: undefined, error: empty }
  else if (path.endsWith('.json')) yield parseJson(text)
  else yield* parseYaml(text)
}

const empty =
  'the file is empty; remove it, or leave a comment in it, if it is to hold nothing'

const parseJson = (text: string): RawDocument => {
  try {
    return { number: 1, value: JSON.parse(text), error: '' }
  } catch (error) {
    return { number: 1, value: undefined, error: jsonFault(messageOf(error), text) }
  }
}

// V8 gives a position for all but the end of the text, and newer ones quote the text.
const jsonFault = (message: string, text: string): string => {
  const position = /at position (\d+)/.exec(message)?.[1]
  const before = position === undefined ? text : text.slice(0, Number(position))
  const line = before.trimEnd().split('\n').length
  const what = message.replace(/ in JSON at position.*$/s, '').replace(/, ".*$/s, '')
  return `line ${line}: ${printable(what)}`
}

/** One document of a file: its value, or why it could not be parsed. */
export interface RawDocument {
  /** From 1, counting empty ones too, as one counts the `---` lines. */
  readonly number: number
  readonly value: unknown
  /** `line 3: ...`; '' when it was parsed. */
  readonly error: string
}

/**
 * The documents of a YAML stream, each when it is asked for. Never rejects. Bounded
 * against documents that grow when read: aliases are counted, and expanded a hundred
 * times at most.
 */
async function* parseYaml(text: string): AsyncGenerator<RawDocument> {
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
  const [twin] = twinKeys(document, yaml)
  if (twin !== undefined) return at(twin.offset, twin.message)
  try {
    return { number, value: document.toJS({ maxAliasCount: 100 }), error: '' }
  } catch (error) {
    return failed(number, error)
  }
}

const failed = (number: number, error: unknown): RawDocument => ({
  number,
  value: undefined,
  error: printable(messageOf(error), 300),
})
