import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isInstalled } from '../support/installed.ts'

const packages = fileURLToPath(new URL('../../scripts/test-packages.sh', import.meta.url))

export interface Kernel {
  readonly image: string
  /** Paths of these modules and of all that they need, in the order in which they load. */
  readonly modules: (...names: readonly string[]) => string[]
}

const kernelFolder = (): string =>
  execFileSync(packages, ['--kernel'], { encoding: 'utf8' }).trim()

/** Why no machine can be booted here; '' when one can. */
export const machineProblem = (): string => {
  if (process.getuid?.() !== 0) return 'a machine that sees all files is booted by root'
  if (process.arch !== 'x64') return 'a machine is booted on x86-64 only'
  if (!isInstalled(qemuName)) return 'qemu-system-x86 is not installed'
  if (!existsSync('/bin/busybox')) return 'busybox-static is not installed'
  const folder = kernelFolder()
  return existsSync(folder) ? '' : `there is no kernel in ${folder}`
}

export const qemuName = 'qemu-system-x86_64'

/** The one that `scripts/test-packages.sh` unpacked. */
export const findKernel = (): Kernel => {
  const folder = kernelFolder()
  const paths = new Map(
    readdirSync(join(folder, 'modules'), { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ko'))
      .map(path => [moduleName(path), join(folder, 'modules', path)]),
  )
  const modules = (...names: readonly string[]): string[] => [
    ...new Set(names.flatMap(name => withNeeds(paths, name))),
  ]
  return { image: join(folder, 'vmlinux'), modules }
}

/** File names have hyphens where the names have underscores. */
export const moduleName = (path: string): string =>
  basename(path, '.ko').replaceAll('-', '_')

/** What a module needs stands in the module itself (`depends=a,b`), and loads first. */
const withNeeds = (paths: ReadonlyMap<string, string>, name: string): string[] => {
  const path = paths.get(name)
  if (path === undefined) throw new Error(`the kernel has no module ${name}`)
  const [, needs = ''] = /\0depends=([^\0]*)\0/.exec(readFileSync(path, 'latin1')) ?? []
  return [
    ...needs
      .split(',')
      .filter(Boolean)
      .flatMap(need => withNeeds(paths, need)),
    path,
  ]
}
