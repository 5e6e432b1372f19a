import { printable } from '../../util/printable.ts'
import { listFiles } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { parseDocuments } from './parse-documents.ts'
import { SetBuilder } from './set-builder.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'

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

const readText = async (path: string, most = mostFileBytes): Promise<string> => {
  const bytes = await readRegular(path, most)
  if (bytes.length > mostFileBytes) throw new Error('it is larger than 64 MiB; split it')
  if (bytes.length > most) throw new Error('it grew while it was read')
  return decodeUtf8(bytes)
}
