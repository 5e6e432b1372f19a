import { printable } from '../../util/printable.ts'
import { listFiles, fileFault } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { parseDocuments } from './parse-documents.ts'
import { SetBuilder } from './set-builder.ts'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * Reads and decodes files and directories of manifests, and holds up the event loop for as
 * long as the longest document takes; see read-apart.ts. Never rejects for what is in
 * them: that is in `problems`. A file of more than `mostBytes` is unreadable.
 */
export const readManifests = async (
  paths: readonly string[],
  mostBytes?: number,
): Promise<ManifestSet> => {
  const set = new SetBuilder()
  const { files, failures } = await listFiles(paths)
  for (const { path, message } of failures)
    set.unreadableFile(printable(path, 300), message)
  for (const file of files) {
    const name = printable(file, 300)
    let text: string
    try {
      text = await readText(file, mostBytes)
    } catch (error) {
      set.unreadableFile(name, fileFault(error))
      continue
    }
    for await (const document of parseDocuments(file, text)) set.document(name, document)
  }
  return { ...set.build(), files: files.length }
}

/** Larger files are refused: half a gigabyte of manifests is a mistake, or an attack. */
const mostFileBytes = 64 * 1024 * 1024

/**
 * A whole text file. Throws when it is not a regular file, larger than `most` bytes
 * or not UTF-8. Opened without blocking: a FIFO would otherwise hold up the read for ever.
 */
const readText = async (path: string, most = mostFileBytes): Promise<string> => {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await handle.stat()).isFile()) throw new Error('it is not a regular file')
    const chunks: Buffer[] = []
    let size = 0
    // One byte beyond the limit shows that a file grew while it was read.
    const stream = handle.createReadStream({ end: most, autoClose: false })
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
    }
    if (size > mostFileBytes) throw new Error('it is larger than 64 MiB; split it')
    if (size > most) throw new Error('it grew while it was read')
    return decodeUtf8(Buffer.concat(chunks))
  } finally {
    await handle.close()
  }
}

const decodeUtf8 = (bytes: Buffer): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new Error('it is not UTF-8 text', { cause })
  }
}
