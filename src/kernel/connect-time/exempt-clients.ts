import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Bpf } from '../bpf/bpf.ts'
import type { Entry } from './compile.ts'
import { exemptKey } from './tables.ts'

const value = '\0'.repeat(8)

export const compileExempt = (key: string): Entry => ({ set: 'exempt', key, value })

/**
 * The groups below `cgroup` that a pattern names, in which `*` stands for any text within a name, as keys of the
 * table `exempt`. What is not there, or goes meanwhile, is none.
 */
export const exemptGroups = (cgroup: string, pattern: string): readonly string[] => {
  let found = [cgroup]
  for (const part of pattern.split('/').filter(Boolean)) {
    const name = new RegExp(
      `^${part.replaceAll(/[^\w*]/g, '\\$&').replaceAll('*', '.*')}$`,
    )
    found = found.flatMap(folder =>
      namesIn(folder)
        .filter(each => name.test(each))
        .map(each => join(folder, each)),
    )
  }
  return found.flatMap(folder => {
    const { ino } = statSync(folder, { bigint: true, throwIfNoEntry: false }) ?? {}
    return ino === undefined ? [] : [keyOf(ino)]
  })
}

const namesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR', 'ENODEV'].includes(code)) return []
    throw error
  }
}

const keyOf = (group: bigint): string => {
  const key = Buffer.alloc(exemptKey.size)
  key.writeBigUInt64LE(group, exemptKey.cgroup)
  return key.toString('latin1')
}

/** By programs that lead already: those in `folder` that an earlier process has left, or another one has. */
export const exemptAtOnce = (bpf: Bpf, folder: string, key: string): void => {
  const [keys, values] = [bpf.allocate(exemptKey.size), bpf.allocate(value.length)]
  keys.bytes.write(key, 'latin1')
  for (const layout of existsSync(folder) ? readdirSync(folder) : []) {
    const table = bpf.pinned(join(folder, layout, 'table-exempt'))
    if (table === undefined) continue
    bpf.updateBatch(table, keys, values, 1)
    bpf.close(table)
  }
}
