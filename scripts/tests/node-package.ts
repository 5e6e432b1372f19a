import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where tests keep what they have fetched. */
export const testCache = join(
  process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
  'usher-tests',
)

interface NodePackage {
  /** As `process.platform` and `process.arch` name it there; npm's package is `node-...`. */
  readonly system: string
  /** A whole version, or a major one. */
  readonly version: string
  /** The folder to install it in; `program` is in there. */
  readonly folder: string
  readonly flags?: readonly string[]
}

export const programOf = ({ system, folder }: NodePackage): string => {
  const name = system.startsWith('win') ? 'node.exe' : 'node'
  return join(folder, 'node_modules', `node-${system}`, 'bin', name)
}

const always = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund']

/** Installs npm's package of a Node. Why it can't be had; else ''. */
export const installNode = (wanted: NodePackage): string => {
  const { system, version, folder, flags = [] } = wanted
  mkdirSync(folder, { recursive: true })
  const what = [...always, '--no-progress', ...flags, `node-${system}@${version}`]
  // No prompt, and not this project's settings: it is another folder.
  const { stderr, error } = spawnSync('npm', ['install', '--prefix', folder, ...what], {
    cwd: folder,
    encoding: 'utf8',
  })
  const said = stderr?.split('\n').find(line => line.startsWith('npm error')) ?? ''
  return error?.message ?? said
}
