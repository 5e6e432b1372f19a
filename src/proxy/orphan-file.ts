import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { newPlace } from '../relay/hand-over/channel.ts'
import { errorCode, errorOf } from '../util/usher-error.ts'

const fileName = 'data-plane.json'

const shape = v.object({
  name: v.string(),
  token: v.string(),
  /** By which clients were led to it; '' until that is known. */
  capture: v.string(),
})

/** Where a data plane waits that a control plane has left behind. */
export type OrphanRecord = v.InferOutput<typeof shape>

/** Where the next control plane learns of this one's data plane, and this one of that before. */
export interface OrphanFile {
  /** What the process before has written, if it has. */
  readonly before: OrphanRecord | undefined
  readonly place: Omit<OrphanRecord, 'capture'>
  /** The next one is to find this one's. Rejects where it can't be written. */
  write(capture: string): Promise<void>
}

/**
 * A file of the state directory that only this user may read: who knows the token gets all sockets. It stays
 * at the end, as a place at which there is no data plane does no harm. Rejects where there can be no such directory.
 */
export const openOrphanFile = async (directory: string): Promise<OrphanFile> => {
  await mkdir(directory).catch((error: unknown) => {
    if (errorCode(errorOf(error)) !== 'EEXIST') throw error
  })
  const path = join(directory, fileName)
  const before = await recordAt(path)
  const place = newPlace()
  const write = async (capture: string): Promise<void> => {
    const draft = `${path}~`
    await writeFile(draft, JSON.stringify({ ...place, capture }), { mode: 0o600 })
    await rename(draft, path)
  }
  return { before, place, write }
}

/** What can't be read says nothing. */
const recordAt = async (path: string): Promise<OrphanRecord | undefined> => {
  try {
    return v.parse(shape, JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return undefined
  }
}
