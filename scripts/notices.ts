import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A file in which a package says under which terms it may be passed on. */
export const isNotice = (file: string): boolean =>
  /(^|\/)(licen[cs]e|notice|copying)([.-][^/]*)?$/i.test(file)

/**
 * The licenses of all packages that these files are of, as they have to be passed on with what is
 * packed of them. Rejects when one of them has none.
 * @param top - the project's folder
 * @param inputs - files relative to it, as esbuild lists them
 */
export const noticesOf = async (
  top: string,
  inputs: Iterable<string>,
): Promise<string> => {
  const folders = new Set(
    Array.from(inputs).flatMap(
      file => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0] ?? [],
    ),
  )
  const texts = await Promise.all([...folders].toSorted().map(one => noticeOf(top, one)))
  return `${head}${texts.join('')}`
}

const head = `The programs in this folder contain these packages. Usher itself has the Apache License 2.0.
`

const noticeOf = async (top: string, folder: string): Promise<string> => {
  const path = join(top, folder)
  const { name, version, license } = JSON.parse(
    await readFile(join(path, 'package.json'), 'utf8'),
  ) as Readonly<Record<'name' | 'version' | 'license', string>>
  const files = (await readdir(path)).filter(isNotice).toSorted()
  if (files.length === 0) throw new Error(`${folder} has no file with its license`)
  const texts = await Promise.all(files.map(file => readFile(join(path, file), 'utf8')))
  const line = '-'.repeat(72)
  return `\n${line}\n${name} ${version} (${license})\n${line}\n\n${texts.map(text => text.trim()).join('\n\n')}\n`
}
