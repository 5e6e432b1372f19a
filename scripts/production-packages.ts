import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const top = fileURLToPath(new URL('../', import.meta.url))

interface LockedPackage {
  readonly version: string
  readonly dev?: boolean
  readonly devOptional?: boolean
}

export interface Lock {
  readonly packages: Readonly<Record<string, LockedPackage>>
}

export const readLock = async (): Promise<Lock> =>
  JSON.parse(await readFile(join(top, 'package-lock.json'), 'utf8')) as Lock

/** Packages that run Usher, as `npm ci --omit=dev` would have them, by their folders below the top. */
export const productionPackages = ({
  packages,
}: Lock): readonly [string, LockedPackage][] =>
  Object.entries(packages).filter(
    ([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true,
  )
