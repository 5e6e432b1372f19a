import type * as Yaml from 'yaml'
import { show } from './printable.ts'

/**
 * The library, loaded where there is YAML: most processes have none. It is CommonJS, of which what is
 * packed has no names but `default`.
 */
export const loadYaml = async (): Promise<typeof Yaml> =>
  (await import('yaml')).default as typeof Yaml

// A document is taken apart in one go, and takes some fifty times its text in memory.
// JSON has no such limit.
const mostDocumentChars = 4 * 1024 * 1024

/** Finding what an alias stands for takes the longer the more there are. */
const mostAliases = 1000

/**
 * Levels of lists and mappings; no object of Kubernetes has a quarter of that. What comes
 * after the parser recurses, and V8 ends the process when the stack is over in the middle
 * of compiling a regular expression, without an exception.
 */
const deepest = 200

/**
 * The documents of a YAML stream, each when it is asked for. Throws Error when one is
 * beyond what is read: 4 MiB, 1000 aliases, 200 levels. What is wrong with one besides
 * is in its `errors`, but for keys that are given twice: see `twinKeys`.
 */
export function* yamlDocuments(
  text: string,
  yaml: typeof Yaml,
  lines: Yaml.LineCounter,
): Generator<Yaml.Document.Parsed> {
  lines.addNewLine(0)
  const parser = new yaml.Parser(lines.addNewLine)
  // `merge` is the `<<` of YAML 1.1, which kubectl takes. The library compares each key
  // of a mapping with every other: minutes for a megabyte of keys.
  const composer = new yaml.Composer({
    merge: true,
    uniqueKeys: false,
    logLevel: 'error',
  })
  let start = 0
  let aliases = 0
  for (const lexeme of new yaml.Lexer().lex(text)) {
    if (parser.offset + lexeme.length - start > mostDocumentChars)
      throw new Error('is larger than 4 MiB; split it, or write it as JSON')
    if (lexeme.startsWith('*') && ++aliases > mostAliases)
      throw new Error(`has more than ${mostAliases} aliases; write the values out`)
    for (const token of parser.next(lexeme)) {
      if (token.type === 'document') start = parser.offset
      yield* composer.next(token)
    }
    if (parser.stack.length > deepest) {
      const { line } = lines.linePos(parser.offset)
      throw new Error(
        `line ${line}: it is nested too deeply: more than ${deepest} levels`,
      )
    }
  }
  for (const token of parser.end()) yield* composer.next(token)
  yield* composer.end()
}

interface TwinKey {
  readonly offset: number
  readonly message: string
}

/**
 * The keys that a mapping of the document has twice: YAML forbids it, and which of
 * the two its writer meant is unknown. Takes time in proportion to the text.
 */
export const twinKeys = (
  document: Yaml.Document,
  { isScalar, visit }: typeof Yaml,
): readonly TwinKey[] => {
  const found: TwinKey[] = []
  visit(document, {
    Map: (_, { items }) => {
      const keys = new Set<unknown>()
      for (const { key } of items) {
        // A merge key may come more than once.
        if (!isScalar(key) || key.value === '<<') continue
        if (keys.has(key.value)) {
          const message = `the key ${show(key.value)} is given twice`
          found.push({ offset: key.range?.[0] ?? 0, message })
        }
        keys.add(key.value)
      }
    },
  })
  return found
}
