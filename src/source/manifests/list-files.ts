import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileFault } from '../../util/read-text.ts'

/** What a path that the user gave stands for. */
export interface Listing {
  /** In the order in which they are read, each once. */
  readonly files: readonly string[]
  /** Paths that could not be listed, and why. */
  readonly failures: readonly Failure[]
}

export interface Failure {
  readonly path: string
  readonly message: string
}

/**
 * Whether a directory's entry is a manifest: `.yaml`, `.yml` or `.json`. Names that begin
 * with a dot are editors' and the kubelet's own (`.web.yaml.swp`, `..data`).
 */
const isManifestName = (name: string): boolean =>
  !name.startsWith('.') && /\.(?:yaml|yml|json)$/.test(name)

/**
 * The files behind `paths`: a file is itself, whatever it is called; a directory is the
 * manifests right in it, in the order of their names, as `kubectl -f` has it.
 */
export const listFiles = async (paths: readonly string[]): Promise<Listing> => {
  const files = new Map<string, string>()
  const failures: Failure[] = []
  for (const path of paths) {
    try {
      for (const file of await filesOf(path))
        if (!files.has(resolve(file))) files.set(resolve(file), file)
    } catch (error) {
      failures.push({ path, message: fileFault(error) })
    }
  }
  return { files: [...files.values()], failures }
}

const filesOf = async (path: string): Promise<string[]> => {
  if (!(await stat(path)).isDirectory()) return [path]
  const entries = await readdir(path, { withFileTypes: true })
  return entries
    .filter(entry => isManifestName(entry.name) && !entry.isDirectory())
    .map(entry => join(path, entry.name))
    .toSorted()
}

/** The directory to watch for a path, and whether one of its entries concerns that path. */
export const watchOf = async (
  path: string,
): Promise<{ directory: string; concerns: (name: string) => boolean }> => {
  const isDirectory = await stat(path).then(
    found => found.isDirectory(),
    () => false,
  )
  if (isDirectory)
    return { directory: path, concerns: name => isManifestName(name) || name === swapped }
  const own = basename(path)
  return { directory: dirname(path), concerns: name => name === own || name === swapped }
}

/** The link that the kubelet swaps when a mounted ConfigMap or Secret changes. */
const swapped = '..data'
