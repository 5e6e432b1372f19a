import { readFile } from 'node:fs/promises'

/** The text of a file; undefined when there is no such file. Rejects when it can't be read. */
export const readIfThere = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
