import { readFile } from 'node:fs/promises'
import { createReadStream } from 'node:fs'

/** The text of a file; undefined when there is no such file. Rejects when it can't be read. */
export const readIfThere = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * A whole text of at most `most` bytes, also from a pipe (`--config <(...)`). Rejects as
 * readFile does, and when there is more: /dev/zero has no end.
 */
export const readBounded = async (path: string, most: number): Promise<string> => {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of createReadStream(path, { end: most })) {
    chunks.push(chunk as Buffer)
    size += (chunk as Buffer).length
  }
  if (size > most) throw new Error(`the file is larger than ${most / 1024} KiB`)
  return Buffer.concat(chunks).toString('utf8')
}
