import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const top = fileURLToPath(new URL('../', import.meta.url))

interface LockedPackage {
  readonly version: string
  readonly dev?: boolean
  readonly devOptional?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

export interface Lock {
  readonly packages: Readonly<Record<string, LockedPackage>>
}

export const readLock = async (): Promise<Lock> =>
  JSON.parse(await readFile(join(top, 'package-lock.json'), 'utf8')) as Lock

/** Packages that run Usher, as `npm ci --omit=dev` would have them, by their folders below the top. */
export const productionPackages = ({
  packages,
}: Lock): readonly [string, LockedPackage][] => {
  const all = Object.entries(packages).filter(([path]) => path !== '')
  const isForDevelopers = ({ dev, devOptional }: LockedPackage): boolean =>
    dev === true || devOptional === true
  // npm does not mark them: the compiler's binaries, one for each platform.
  const partsOfThose = new Set(
    all.flatMap(([, one]) =>
      isForDevelopers(one) ? Object.keys(one.optionalDependencies ?? {}) : [],
    ),
  )
  return all.filter(
    ([path, one]) =>
      !isForDevelopers(one) && !partsOfThose.has(path.replace('node_modules/', '')),
  )
}
