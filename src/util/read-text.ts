import { constants, createReadStream } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { printable } from './printable.ts'
import { messageOf } from './usher-error.ts'

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

/** The text of a stream in UTF-8; undefined where it has more than `most` bytes. Rejects as the stream does. */
export const textOf = async (
  stream: AsyncIterable<Buffer>,
  most: number,
): Promise<string | undefined> => {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of stream) {
    length += piece.length
    if (length > most) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/**
 * The bytes of a regular file, at most one more than `most`: it shows that there are more, or
 * that the file grew while it was read. Opened without blocking: a FIFO would otherwise hold
 * up the read for ever.
 */
export const readRegular = async (path: string, most: number): Promise<Buffer> => {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await handle.stat()).isFile()) throw new Error('it is not a regular file')
    const chunks: Buffer[] = []
    const stream = handle.createReadStream({ end: most, autoClose: false })
    for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks)
  } finally {
    await handle.close()
  }
}

export const decodeUtf8 = (bytes: Buffer): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new Error('it is not UTF-8 text', { cause })
  }
}

const codes: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory',
  EACCES: 'permission to read it is denied',
  EMFILE: 'no file descriptor is left to open it with',
  ENFILE: 'the system has no file descriptor left to open it with',
}

/** What is wrong, without the path, which is named beside it. */
export const fileFault = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return codes[code] ?? printable(messageOf(error), 300)
}
