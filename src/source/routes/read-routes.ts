import { printable, peek } from '../../util/printable.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'
import { clashesOf, decodeRoute, routeFaults } from './decode-route.ts'
import type { Route } from './route.ts'
import { fileShape, type RawRoute } from './route-fields.ts'
import { type FileFault, parseRoutesYaml } from './routes-yaml.ts'
import { loadYaml } from '../../util/yaml-documents.ts'
import { type ShapeFault, shapeFaults } from './shape-faults.ts'

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
  if (text.includes('\0')) throw new Error('it has NUL bytes; save it as UTF-8 text')
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
  message: 'is of a manifest, not of a file of routes; give it to usher run --manifests',
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
