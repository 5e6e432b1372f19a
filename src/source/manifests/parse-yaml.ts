import type * as Yaml from 'yaml'
import { printable } from '../decode/printable.ts'
import type { RawDocument } from './raw-document.ts'
import { twinKey } from './twin-keys.ts'
import { pacer } from './pacer.ts'

// A document is taken apart in one go, and takes some fifty times its text in memory.
// JSON has no such limit.
const mostDocumentChars = 4 * 1024 * 1024

/** Finding what an alias stands for takes the longer the more there are. */
const mostAliases = 1000

/**
 * The documents of a YAML stream, one after the other and with pauses, so that a large
 * file does not hold up the connections this process carries. Bounded against documents
 * that grow when read: aliases are counted, and expanded a hundred times at most.
 */
export const parseYaml = async (text: string): Promise<RawDocument[]> => {
  // Loaded here because a process without manifests needs none of it.
  const yaml = await import('yaml')
  const lines = new yaml.LineCounter()
  const parser = new yaml.Parser(lines.addNewLine)
  lines.addNewLine(0)
  // `merge` is the `<<` of YAML 1.1, which kubectl takes. The library compares each key
  // of a mapping with every other: minutes for a megabyte of keys. See twin-keys.ts.
  const composer = new yaml.Composer({
    merge: true,
    uniqueKeys: false,
    logLevel: 'error',
  })
  const documents: RawDocument[] = []
  const take = (found: Iterable<Yaml.Document>) => {
    for (const document of found)
      documents.push(rawDocument(document, documents.length + 1, lines, yaml))
  }
  try {
    await feed(text, new yaml.Lexer(), parser, composer, take)
  } catch (error) {
    documents.push(failed(documents.length + 1, error))
  }
  return documents
}

const feed = async (
  text: string,
  lexer: { lex(source: string): Iterable<string> },
  parser: Yaml.Parser,
  composer: Yaml.Composer,
  take: (found: Iterable<Yaml.Document>) => void,
): Promise<void> => {
  const pause = pacer()
  let chars = 0
  let aliases = 0
  for (const lexeme of lexer.lex(text)) {
    chars += lexeme.length
    if (chars > mostDocumentChars)
      throw new Error('is larger than 4 MiB; split it, or write it as JSON')
    if (lexeme.startsWith('*') && ++aliases > mostAliases)
      throw new Error(`has more than ${mostAliases} aliases; write the values out`)
    for (const token of parser.next(lexeme)) {
      if (token.type === 'document') chars = 0
      take(composer.next(token))
      await pause()
    }
    if (chars % 64 === 0) await pause()
  }
  for (const token of parser.end()) take(composer.next(token))
  take(composer.end())
}

// The parser recurses; the text decides how deep.
const tooDeep = 'it is nested too deeply'

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
  if (fault !== undefined)
    return at(
      fault.pos[0],
      fault.message.includes('call stack') ? tooDeep : fault.message,
    )
  try {
    const twin = twinKey(document, yaml)
    if (twin !== undefined) return at(twin.offset, twin.message)
    return { number, value: document.toJS({ maxAliasCount: 100 }), error: '' }
  } catch (error) {
    return failed(number, error)
  }
}

const failed = (number: number, error: unknown): RawDocument => {
  const message = error instanceof Error ? error.message : String(error)
  const what = error instanceof RangeError ? tooDeep : message
  return { number, value: undefined, error: printable(what, 300) }
}
