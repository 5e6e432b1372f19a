import { badSource } from '../source.ts'
import { dirname, isAbsolute, join } from 'node:path'
import { fileFault, readBounded } from '../../util/read-text.ts'
import { printable, show, peek } from '../../util/printable.ts'
import { loadYaml, yamlDocuments } from '../../util/yaml-documents.ts'

/** What the current context of a kubeconfig says. Paths are absolute; '' is "not given". */
export interface Kubeconfig {
  /** `kubeconfig /etc/usher.conf`, for errors. */
  readonly title: string
  readonly cluster: Part
  readonly user: Part
}

/** One `cluster` or `user` of a kubeconfig. */
export interface Part {
  /** `kubeconfig /etc/usher.conf: users["admin"].user`, for errors. */
  readonly title: string
  readonly name: string
  /** Where relative paths begin. */
  readonly directory: string
  /** The text of a field. Throws BAD_SOURCE when it is something else. */
  text(field: string): string
  /** A field that names a file, as an absolute path. */
  path(field: string): string
  raw(field: string): unknown
}

/** One with a thousand clusters, and a certificate in each, has this. */
const mostBytes = 4 * 1024 * 1024

/** Reads a kubeconfig and finds its current context. Rejects with BAD_SOURCE. */
export const readKubeconfig = async (file: string): Promise<Kubeconfig> => {
  const title = `kubeconfig ${printable(file, 300)}`
  const config = await parsed(await contents(file, title), title)
  const ofKind = peek(config, 'kind') ?? 'Config'
  if (ofKind !== 'Config')
    throw badSource(
      `${title}: has the kind ${show(ofKind)} and is not a kubeconfig; Services from files are given with --manifests`,
    )
  const current = peek(config, 'current-context')
  const names = namesOf(peek(config, 'contexts'))
  if (typeof current !== 'string' || current === '')
    throw badSource(
      `${title}: current-context is missing; name one of the contexts${names}`,
    )
  const found = entry(peek(config, 'contexts'), current)
  if (found === undefined)
    throw badSource(
      `${title}: current-context ${show(current)} is not among the contexts${names}`,
    )
  const context = peek(found, 'context')
  const part = (list: string, kind: string): Part => {
    const name = peek(context, kind)
    const where = `${title}: contexts[${show(current)}].context.${kind}`
    // A context without a user is one without credentials.
    if (kind === 'user' && (name === undefined || name === ''))
      return partOf(dirname(file), where, '', {})
    const given = entry(peek(config, list), name)
    if (given === undefined)
      throw badSource(
        `${where} ${show(name)} is not among the ${list}${namesOf(peek(config, list))}`,
      )
    const partTitle = `${title}: ${list}[${show(name)}].${kind}`
    return partOf(dirname(file), partTitle, String(name), peek(given, kind))
  }
  return { title, cluster: part('clusters', 'cluster'), user: part('users', 'user') }
}

const contents = async (file: string, title: string): Promise<string> => {
  try {
    return await readBounded(file, mostBytes)
  } catch (error) {
    throw badSource(
      `${title}: ${fileFault(error)}; give --kubeconfig a file that can be read`,
    )
  }
}

const parsed = async (text: string, title: string): Promise<unknown> => {
  try {
    // A pod has none: it goes by its account.
    const yaml = await loadYaml()
    const lines = new yaml.LineCounter()
    const [document] = yamlDocuments(text, yaml, lines)
    const [fault] = document?.errors ?? []
    if (fault !== undefined)
      throw new Error(`line ${lines.linePos(fault.pos[0]).line}: ${fault.message}`)
    const config: unknown = document?.toJS({ maxAliasCount: 100 })
    if (typeof config === 'object' && config !== null && !Array.isArray(config))
      return config
  } catch (error) {
    // Only the first line: the rest quotes the file, which holds secrets.
    const message = error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : ''
    throw badSource(`${title}: is not YAML: ${printable(message, 200)}`)
  }
  throw badSource(
    `${title}: is not a kubeconfig; it needs current-context, contexts, clusters and users`,
  )
}

const entry = (list: unknown, name: unknown): unknown =>
  Array.isArray(list) && typeof name === 'string'
    ? (list as unknown[]).find(item => peek(item, 'name') === name)
    : undefined

/** ` (a, b)`, the names that there are. */
const namesOf = (list: unknown): string => {
  const names = (Array.isArray(list) ? (list as unknown[]) : [])
    .slice(0, 10)
    .map(item => printable(String(peek(item, 'name'))))
  return ` (${names.length === 0 ? 'there are none' : names.join(', ')})`
}

const partOf = (directory: string, title: string, name: string, given: unknown): Part => {
  const raw = (field: string) => peek(given, field) ?? undefined
  const text = (field: string) => {
    const value = raw(field)
    if (value === undefined) return ''
    if (typeof value === 'string') return value
    throw badSource(`${title}.${field}: ${typeof value} is given; give a text`)
  }
  const path = (field: string) => {
    const value = text(field)
    return value === '' || isAbsolute(value) ? value : join(directory, value)
  }
  return { title, name, directory, text, path, raw }
}
