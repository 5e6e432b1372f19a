import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'

/** A bpffs of the test file's own, which ends with it. */
export const makeBpffs = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-bpffs-'))
  execFileSync('mount', ['-t', 'bpf', 'bpf', folder])
  t.teardown(() => {
    execFileSync('umount', [folder])
    rmdirSync(folder)
  })
  return folder
}
