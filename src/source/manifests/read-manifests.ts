import type { CreatedAt } from '../decode/decoded.ts'
import { printable } from '../decode/printable.ts'
import { listFiles, messageOf } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { parseDocuments } from './parse-documents.ts'
import { readText } from './read-file.ts'
import { SetBuilder } from './set-builder.ts'

/**
 * Reads and decodes files and directories of manifests, and holds up the event loop for as
 * long as the longest document takes; see read-apart.ts. Never rejects for what is in
 * them: that is told by `problems`. Services that do not say when they were made get
 * their number from `createdAt`. A file of more than `mostBytes` is unreadable.
 */
export const readManifests = async (
  paths: readonly string[],
  createdAt: CreatedAt,
  mostBytes?: number,
): Promise<ManifestSet> => {
  const set = new SetBuilder(createdAt)
  const { files, failures } = await listFiles(paths)
  for (const { path, message } of failures)
    set.unreadableFile(printable(path, 300), message)
  for (const file of files) {
    const name = printable(file, 300)
    let text: string
    try {
      text = await readText(file, mostBytes)
    } catch (error) {
      set.unreadableFile(name, messageOf(error))
      continue
    }
    for await (const document of parseDocuments(file, text)) set.document(name, document)
  }
  return { ...set.build(), files: files.length }
}
