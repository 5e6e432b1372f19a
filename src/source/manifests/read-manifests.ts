import type { CreatedAt } from '../decode/decoded.ts'
import { printable } from '../decode/printable.ts'
import { listFiles, messageOf } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { pacer } from './pacer.ts'
import { parseDocuments } from './parse-documents.ts'
import { readText } from './read-file.ts'
import { SetBuilder } from './set-builder.ts'

/**
 * Reads and decodes files and directories of manifests. Never rejects for what is in
 * them: that is told by `problems`. Services that do not say when they were made are
 * numbered from 1 in the order of reading unless `createdAt` knows better.
 */
export const readManifests = async (
  paths: readonly string[],
  createdAt: CreatedAt = inOrder(),
): Promise<ManifestSet> => {
  const set = new SetBuilder(createdAt)
  const pause = pacer()
  const { files, failures } = await listFiles(paths)
  for (const { path, message } of failures)
    set.unreadableFile(printable(path, 300), message)
  for (const file of files) {
    const name = printable(file, 300)
    let text: string
    try {
      text = await readText(file)
    } catch (error) {
      set.unreadableFile(name, messageOf(error))
      continue
    }
    for (const document of await parseDocuments(file, text)) {
      set.document(name, document)
      await pause()
    }
  }
  return { ...set.build(), files: files.length }
}

const inOrder = (): CreatedAt => {
  let last = 0
  return () => ++last
}
