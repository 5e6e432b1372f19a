import { randomBytes } from 'node:crypto'
import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One that is never on a disk comes first; a container may have it alone to write to. */
const folders = ['/dev/shm', tmpdir()]

/**
 * A descriptor from which a tool can read all of `input`, of a file without a name. By a pipe a
 * tool would take what has come through by the time that Usher is killed for the whole, and half
 * of a transaction may be one, too; and nft before 1.0.6 opens its input by name, which the kind of
 * pipe that Node makes is not for. Undefined for none, and where no file can be made: a pipe has
 * to do. The caller closes it.
 */
export const inputFile = (input: string): number | undefined => {
  if (input === '') return undefined
  for (const folder of folders) {
    const file = tryWrite(folder, Buffer.from(input))
    if (file !== undefined) return file
  }
  return undefined
}

const tryWrite = (folder: string, input: Buffer): number | undefined => {
  const path = join(folder, `usher-${process.pid}-${randomBytes(6).toString('hex')}`)
  let file: number | undefined
  try {
    file = openSync(path, 'wx+', 0o600)
    unlinkSync(path)
    // With a position, so that who reads it begins at the start.
    if (writeSync(file, input, 0, input.length, 0) === input.length) return file
  } catch {
    // There is no such folder, no room in it, or nothing may be written.
  }
  if (file !== undefined) closeSync(file)
  return undefined
}
