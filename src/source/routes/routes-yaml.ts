import type * as Yaml from 'yaml'
import { printable } from '../../util/printable.ts'
import { messageOf } from '../../util/usher-error.ts'
import { twinKeys, yamlDocuments } from '../../util/yaml-documents.ts'
import { fieldPath } from '../decode/problem.ts'
import type { ShapeFault } from './shape-faults.ts'

/** What is wrong in a file of routes. */
export interface FileFault {
  /** 0 where it is the whole file. */
  readonly line: number
  /** `routes[0].listen`; '' where it is none. */
  readonly field: string
  readonly message: string
}

export interface RoutesYaml {
  readonly value: unknown
  /** Why there is no value to look at. */
  readonly faults: readonly FileFault[]
  /** Where in the text a fault of the value is. */
  readonly placed: (fault: ShapeFault) => FileFault
}

const mostAliases = 100

const emptyFile =
  'the file is empty; give routes: [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]'

/** Parses YAML, or the JSON that is a part of it. Never throws. */
export const parseRoutesYaml = (text: string, yaml: typeof Yaml): RoutesYaml => {
  const lines = new yaml.LineCounter()
  const at = (offset: number, message: string): FileFault =>
    fault(lines.linePos(offset).line, message)
  try {
    const [document, second] = [...yamlDocuments(text, yaml, lines)]
    if (document === undefined) return withoutValue([fault(0, emptyFile)])
    const faults = documentFaults(document, yaml, at)
    if (second !== undefined)
      faults.push(at(second.range[0], 'a second document begins; give all routes in one'))
    if (faults.length > 0) return withoutValue(faults)
    const value: unknown = document.toJS({ maxAliasCount: mostAliases })
    if (value === null || value === undefined) return withoutValue([fault(0, emptyFile)])
    return {
      value,
      faults,
      placed: ({ path, message }) => ({
        line: lines.linePos(offsetOf(document, path, yaml)).line,
        field: fieldPath(path),
        message,
      }),
    }
  } catch (error) {
    return withoutValue([thrown(messageOf(error))])
  }
}

const withoutValue = (faults: readonly FileFault[]): RoutesYaml => ({
  value: undefined,
  faults,
  placed: ({ message }) => fault(0, message),
})

type FaultAt = (offset: number, message: string) => FileFault

/** What would be right, where the parser only says what is wrong. */
const advice: Readonly<Partial<Record<Yaml.ErrorCode, string>>> = {
  TAB_AS_INDENT: '; use spaces',
  BAD_SCALAR_START: '; put it in quotes',
  UNEXPECTED_TOKEN: '; put text with brackets in it in quotes',
}

/** Of the text as YAML, whatever it means. */
const documentFaults = (
  document: Yaml.Document.Parsed,
  yaml: typeof Yaml,
  at: FaultAt,
): FileFault[] => [
  ...document.errors.map(({ pos, code, message }) =>
    at(pos[0], `${message}${advice[code] ?? ''}`),
  ),
  // It goes on without what it warns of, such as a tag.
  ...document.warnings.map(({ pos, message }) => at(pos[0], `${message}; leave it out`)),
  ...twinKeys(document, yaml).map(({ offset, message }) =>
    at(offset, `${message}; give it once`),
  ),
  ...aliasFaults(document, yaml, at),
]

const fault = (line: number, message: string): FileFault => ({
  line,
  field: '',
  message: printable(message, 300),
})

/** What the parser throws names its line itself, where it has one. */
const thrown = (message: string): FileFault => {
  if (message.startsWith('Excessive alias count'))
    return fault(0, 'its aliases stand for too much; write the values out')
  const [, line, rest] = /^line (\d+): (.*)$/s.exec(message) ?? []
  return rest === undefined ? fault(0, message) : fault(Number(line), rest)
}

/** An alias without its anchor, within its own anchor, or one of too many. */
const aliasFaults = (
  document: Yaml.Document.Parsed,
  yaml: typeof Yaml,
  at: FaultAt,
): FileFault[] => {
  const found: FileFault[] = []
  let count = 0
  yaml.visit(document, {
    Alias: (_, alias, path) => {
      count += 1
      const target = alias.resolve(document)
      const { source } = alias
      const wrong =
        target === undefined
          ? `the alias *${source} has no anchor &${source} before it; write the value out`
          : path.includes(target)
            ? `the alias *${source} stands within its own anchor; write the value out`
            : count === mostAliases + 1
              ? `there are more than ${mostAliases} aliases; write the values out`
              : ''
      if (wrong !== '') found.push(at(alias.range?.[0] ?? 0, wrong))
      // To find what one stands for takes the longer the more there are.
      return count > mostAliases ? yaml.visit.BREAK : undefined
    },
  })
  return found
}

/** Where a field is, by its key; of one that is not there, where the nearest around it is. */
const offsetOf = (
  document: Yaml.Document.Parsed,
  path: ShapeFault['path'],
  { isAlias, isMap, isNode, isScalar, isSeq }: typeof Yaml,
): number => {
  let node: unknown = document.contents
  let offset = document.contents?.range[0] ?? 0
  for (const key of path) {
    const here = isAlias(node) ? node.resolve(document) : node
    if (isMap(here)) {
      const pair = here.items.find(
        each => isScalar(each.key) && String(each.key.value) === String(key),
      )
      if (pair === undefined) break
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(here)) {
      node = here.items[Number(key)]
      if (isNode(node)) offset = node.range?.[0] ?? offset
    } else break
  }
  return offset
}
