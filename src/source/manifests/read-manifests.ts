import { printable, peek } from '../../util/printable.ts'
import { listFiles } from './list-files.ts'
import type * as Yaml from 'yaml'
import { loadYaml, twinKeys, yamlDocuments } from '../../util/yaml-documents.ts'
import { messageOf } from '../../util/usher-error.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'
import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { decode } from '../decode/decode.ts'
import type { DecodedObject } from '../decode/decode-object.ts'
import type { SourceObject, Applied } from '../diff.ts'
import { undated } from '../decode/service.ts'

/** All that some paths held at one moment. */
export interface ManifestSet {
  /** In the order of paths, files and documents. */
  readonly objects: readonly SourceObject[]
  /** Keys of objects that are there and of which nothing could be read: earlier versions stand. */
  readonly refused: ReadonlySet<string>
  /** Everything wrong, that of `unreadable` included. */
  readonly problems: readonly Problem[]
  /** Files that could not be read and documents that could not be parsed: not empty means that the set has holes. */
  readonly unreadable: readonly Problem[]
  /** True when reading once more may help although no file changes. */
  readonly transient: boolean
  /** What is served although a cluster would refuse it, an object each. */
  readonly warnings: readonly string[]
  /** What was skipped, each once: `apps/v1 Deployment is not ...`. */
  readonly skipped: readonly string[]
  /** Files that there were. */
  readonly files: number
  /** Documents that held something. */
  readonly documents: number
}

/** Numbers Services without a creation time in the order in which they were first seen, across reads. */
export class FirstSight {
  readonly #numbers = new Map<string, number>()
  #last = 0

  numbered({ key, changes }: SourceObject): SourceObject {
    return { key, changes: changes.map(change => this.#numbered(key, change)) }
  }

  /** Forgets Services that are gone: one that comes back is new. */
  keepOnly(objects: Applied): void {
    for (const key of this.#numbers.keys())
      if (!objects.has(key)) this.#numbers.delete(key)
  }

  #numbered(key: string, change: Change): Change {
    if (change.kind !== 'Service' || change.object?.createdAt !== undated) return change
    const createdAt = this.#numbers.get(key) ?? ++this.#last
    this.#numbers.set(key, createdAt)
    return { ...change, object: { ...change.object, createdAt } }
  }
}

/**
 * Reads and decodes files and directories of manifests, and holds up the event loop for as
 * long as the longest document takes; see read-apart.ts. Never rejects for what is in
 * them: that is in `problems`. A file of more than `mostBytes` is unreadable.
 */
export const readManifests = async (
  paths: readonly string[],
  mostBytes?: number,
): Promise<ManifestSet> => {
  const set = new SetBuilder()
  const { files, failures } = await listFiles(paths)
  for (const { path, message } of failures)
    set.unreadableFile(printable(path, 300), message)
  for (const file of files) {
    const name = printable(file, 300)
    let text: string
    try {
      text = await readText(file, mostBytes)
    } catch (error) {
      set.unreadableFile(name, fileFault(error))
      continue
    }
    for await (const document of parseDocuments(file, text)) set.document(name, document)
  }
  return { ...set.build(), files: files.length }
}

/** Larger files are refused: half a gigabyte of manifests is a mistake, or an attack. */
const mostFileBytes = 64 * 1024 * 1024

const readText = async (path: string, most = mostFileBytes): Promise<string> => {
  const bytes = await readRegular(path, most)
  if (bytes.length > mostFileBytes) throw new Error('it is larger than 64 MiB; split it')
  if (bytes.length > most) throw new Error('it grew while it was read')
  return decodeUtf8(bytes)
}

/** A List may hold Lists; deeper ones are not meant. */
const deepestList = 8

/** The first show what is wrong; a file of garbage has millions. */
const mostListed = 1000

/** An API server takes no object of more than 1.5 MiB, which holds about as many. */
const mostEndpoints = 50_000

/** Where an object stands: `web.yaml document 2`, and `items[3].` when it is in a List. */
interface Place {
  readonly document: string
  readonly prefix: string
}

/** Gathers a ManifestSet document by document. */
export class SetBuilder {
  readonly #objects = new Map<string, SourceObject>()
  /** Where each key was first seen, sound or not. */
  readonly #places = new Map<string, Place>()
  readonly #refused = new Set<string>()
  readonly #problems = new BoundedList()
  readonly #unreadable = new BoundedList()
  readonly #skipped = new Set<string>()
  readonly #warnings: string[] = []
  #transient = false
  #documents = 0

  unreadableFile(file: string, message: string): void {
    this.#transient = true
    this.#hole({ object: file, field: '', message })
  }

  document(file: string, { number, value, error }: RawDocument): void {
    const document = `${file} document ${number}`
    if (error !== '') this.#hole({ object: document, field: '', message: error })
    // Nothing but comments between two `---` lines.
    else if (value === null || value === undefined) return
    else this.#add(value, { document, prefix: '' }, 0)
    this.#documents++
  }

  build(): Omit<ManifestSet, 'files'> {
    return {
      objects: [...this.#objects.values()],
      refused: this.#refused,
      problems: this.#problems.all(),
      unreadable: this.#unreadable.all(),
      transient: this.#transient,
      warnings: this.#warnings,
      skipped: [...this.#skipped],
      documents: this.#documents,
    }
  }

  #add(raw: unknown, place: Place, depth: number): void {
    if (peek(raw, 'apiVersion') === 'v1' && peek(raw, 'kind') === 'List')
      return this.#list(peek(raw, 'items'), place, depth)
    const result = decode(raw)
    if ('skipped' in result) this.#skip(result.skipped)
    else if ('malformed' in result)
      this.#hole({
        object: place.document,
        field: place.prefix.slice(0, -1),
        message: result.malformed,
      })
    else this.#take(result, place)
  }

  #list(items: unknown, { document, prefix }: Place, depth: number): void {
    const field = `${prefix}items`
    if (items === undefined || items === null) return
    if (!Array.isArray(items))
      return this.#hole({ object: document, field, message: 'is not a list' })
    if (depth >= deepestList) {
      const message = `nests Lists more than ${deepestList} deep`
      return this.#hole({ object: document, field, message })
    }
    for (const [i, item] of items.entries())
      this.#add(item, { document, prefix: `${field}[${i}].` }, depth + 1)
  }

  #take(decoded: DecodedObject, place: Place): void {
    const { key, title, changes, problems, invalid, unread } = decoded
    const object = `${place.document} (${title})`
    const first = key === '' ? undefined : this.#places.get(key)
    if (first !== undefined) {
      const message = `is in ${first.document} already, which takes precedence`
      this.#problems.push({ object, field: place.prefix.slice(0, -1), message })
      return
    }
    if (key !== '') this.#places.set(key, place)
    for (const { field, message } of problems)
      this.#problems.push({ object, field: `${place.prefix}${field}`, message })
    const endpoints = endpointsOf(changes)
    if (endpoints > mostEndpoints) {
      const message = `it has ${endpoints} endpoints; give several EndpointSlices, of ${mostEndpoints} at most`
      this.#problems.push({ object, field: place.prefix.slice(0, -1), message })
      this.#refused.add(key)
      return
    }
    const [odd] = invalid
    if (odd !== undefined && this.#warnings.length < mostListed)
      this.#warnings.push(
        `${object}: ${place.prefix}${odd.field}: ${odd.message}; from an API server it would be ignored`,
      )
    if (key === '') return
    if (unread) this.#refused.add(key)
    else this.#objects.set(key, { key, changes })
  }

  #skip(what: string): void {
    if (this.#skipped.size < mostListed) this.#skipped.add(skippedText(what))
  }

  #hole(problem: Problem): void {
    this.#unreadable.push(problem)
    this.#problems.push(problem)
  }
}

const skippedText = (what: string): string =>
  `${what} is not supported; Usher reads v1 Service, Endpoints, Node, List, discovery.k8s.io/v1 EndpointSlice and networking.k8s.io/v1 ServiceCIDR`

const endpointsOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, change) => {
    const slice = change.kind === 'EndpointSlice' ? change.object : undefined
    return sum + (slice?.endpoints.length ?? 0)
  }, 0)

/** The first problems, and how many there were. */
class BoundedList {
  readonly #kept: Problem[] = []
  #more = 0

  push(problem: Problem): void {
    if (this.#kept.length < mostListed) this.#kept.push(problem)
    else this.#more++
  }

  all(): readonly Problem[] {
    if (this.#more === 0) return this.#kept
    const message = `${this.#more} more problems, too many to list`
    return [...this.#kept, { object: 'manifests', field: '', message }]
  }
}

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
  const yaml = await loadYaml()
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
