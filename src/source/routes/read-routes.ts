import { printable, peek } from '../../util/printable.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'
import { clashesOf, decodeRoute, routeFaults } from './decode-route.ts'
import type { Route } from './route.ts'
import { fileShape, type RawRoute } from './route-fields.ts'
import { type ShapeFault, shapeFaults } from './shape-faults.ts'
import type * as Yaml from 'yaml'
import { messageOf } from '../../util/usher-error.ts'
import { loadYaml, twinKeys, yamlDocuments } from '../../util/yaml-documents.ts'
import { fieldPath } from '../decode/problem.ts'

export interface ReadRoutes {
  /** None where there is a fault. */
  readonly routes: readonly Route[]
  /** By line. */
  readonly faults: readonly FileFault[]
}

/** Bytes: some hundred routes. It is parsed while connections wait. */
const mostBytes = 64 * 1024

/** More are only counted. */
const mostFaults = 100

/** The text of a file of routes. Throws Error with what is wrong, without the path. */
export const readRoutesText = async (path: string): Promise<string> => {
  let bytes: Buffer
  try {
    bytes = await readRegular(path, mostBytes)
  } catch (error) {
    throw new Error(fileFault(error), { cause: error })
  }
  if (bytes.length > mostBytes)
    throw new Error(`it is larger than ${mostBytes / 1024} KiB; split it`)
  const text = decodeUtf8(bytes)
  if (text.includes('\0')) throw new Error('it contains NUL bytes; save it as UTF-8 text')
  return text
}

/**
 * Reads routes from the text of a file, with all that is wrong. `others`: what is there besides,
 * from flags.
 */
export const readRoutes = async (
  text: string,
  others: readonly Route[] = [],
): Promise<ReadRoutes> => {
  const yaml = await loadYaml()
  const { value, faults, placed } = parseRoutesYaml(text, yaml)
  if (faults.length > 0) return { routes: [], faults: bounded(faults, same) }
  const found = faultsOf(value)
  const decoded = soundRoutes(value, found)
  const all = [...found, ...clashFaults(decoded, others)]
  return all.length > 0
    ? { routes: [], faults: bounded(all, placed) }
    : { routes: decoded.filter(route => route !== undefined), faults: [] }
}

/** In the order of the file, with nothing in place of those that have faults. */
const soundRoutes = (
  value: unknown,
  faults: readonly ShapeFault[],
): readonly (Route | undefined)[] => {
  const faulty = new Set(faults.map(({ path }) => path[1]))
  return listOf(value).map((raw, i) =>
    faulty.has(i) ? undefined : decodeRoute(raw as RawRoute),
  )
}

const listOf = (value: unknown): readonly unknown[] => {
  const { routes } = Object(value) as { readonly routes?: unknown }
  return Array.isArray(routes) ? routes : []
}

const faultsOf = (value: unknown): ShapeFault[] =>
  isManifest(value) ? [manifestFault] : faultsOfRoutes(value)

const isManifest = (value: unknown): boolean =>
  typeof peek(value, 'apiVersion') === 'string' && peek(value, 'routes') === undefined

const manifestFault: ShapeFault = {
  path: ['apiVersion'],
  message:
    'belongs in a manifest, not in a file of routes; give it to usher run --manifests',
}

const faultsOfRoutes = (value: unknown): ShapeFault[] => [
  ...shapeFaults(fileShape, value),
  ...listOf(value).flatMap((raw, i) =>
    routeFaults(raw).map(({ path, message }) => ({
      path: ['routes', i, ...path],
      message,
    })),
  ),
]

/** Of those routes that are sound by themselves. */
const clashFaults = (
  decoded: readonly (Route | undefined)[],
  others: readonly Route[],
): ShapeFault[] => {
  const sound = [...decoded.entries()].flatMap(([i, route]) =>
    route === undefined ? [] : [{ i, route }],
  )
  const clashes = clashesOf([...others, ...sound.map(({ route }) => route)])
  return sound.flatMap(({ i }, k) =>
    (clashes[others.length + k] ?? []).map(({ field, message }) => ({
      path: ['routes', i, field],
      message,
    })),
  )
}

const same = (fault: FileFault): FileFault => fault

/** To find where one is takes long where there are aliases. */
const bounded = <F extends FileFault | ShapeFault>(
  faults: readonly F[],
  placed: (fault: F) => FileFault,
): readonly FileFault[] => {
  const byLine = faults
    .slice(0, mostFaults)
    .map(placed)
    .toSorted((a, b) => a.line - b.line)
  const more = faults.length - mostFaults
  return more <= 0
    ? byLine
    : [...byLine, { line: 0, field: '', message: `and ${more} more faults` }]
}

/** `line 3: routes[0].listen: ...`, each part where there is one. */
export const faultText = ({ line, field, message }: FileFault): string =>
  [placeOf({ line, field }), message].filter(part => part !== '').join(': ')

/** `line 3: routes[0].listen`. */
export const placeOf = ({ line, field }: Pick<FileFault, 'line' | 'field'>): string =>
  [line > 0 ? `line ${line}` : '', printable(field, 200)]
    .filter(part => part !== '')
    .join(': ')

/** What is wrong in a file of routes. */
export interface FileFault {
  /** 0 where it is the whole file. */
  readonly line: number
  /** `routes[0].listen`; '' where it is none. */
  readonly field: string
  readonly message: string
}

interface RoutesYaml {
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
const parseRoutesYaml = (text: string, yaml: typeof Yaml): RoutesYaml => {
  const lines = new yaml.LineCounter()
  const at = (offset: number, message: string): FileFault =>
    onLine(lines.linePos(offset).line, message)
  try {
    const [document, second] = [...yamlDocuments(text, yaml, lines)]
    if (document === undefined) return withoutValue([onLine(0, emptyFile)])
    const faults = documentFaults(document, yaml, at)
    if (second !== undefined)
      faults.push(at(second.range[0], 'a second document begins; give all routes in one'))
    if (faults.length > 0) return withoutValue(faults)
    const value: unknown = document.toJS({ maxAliasCount: mostAliases })
    if (value === null || value === undefined) return withoutValue([onLine(0, emptyFile)])
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
  placed: ({ message }) => onLine(0, message),
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

const onLine = (line: number, message: string): FileFault => ({
  line,
  field: '',
  message: printable(message, 300),
})

/** What the parser throws names its line itself, where it has one. */
const thrown = (message: string): FileFault => {
  if (message.startsWith('Excessive alias count'))
    return onLine(0, 'its aliases stand for too much; write the values out')
  const [, line, rest] = /^line (\d+): (.*)$/s.exec(message) ?? []
  return rest === undefined ? onLine(0, message) : onLine(Number(line), rest)
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
