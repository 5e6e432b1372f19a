import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { recordText } from './record/json.ts'
import type { RunRecord } from './record/record.ts'
import { htmlReport } from './report/html/html-report.ts'
import { markdownReport } from './report/markdown.ts'
import { pictures } from './report/svg/pictures.ts'

/**
 * Writes the figures (JSON) and the report (HTML) into `folder`, named after the time of
 * the run. Gives the paths. Throws when a file can't be written.
 */
export const writeResults = (record: RunRecord, folder: string): readonly string[] => {
  mkdirSync(folder, { recursive: true })
  const name = `usher-bench-${record.startedAt.slice(0, 19).replaceAll(':', '-')}`
  const json = join(folder, `${name}.json`)
  writeFileSync(json, recordText(record))
  return [json, writeHtml(record, join(folder, `${name}.html`))]
}

export const writeHtml = (record: RunRecord, path: string): string => {
  writeFileSync(path, htmlReport(record))
  return path
}

/** The page, and beside it a folder of its name with pictures and figures. */
export const writeMarkdown = (record: RunRecord, page: string): readonly string[] => {
  const folder = page.replace(/(?:\.md)?$/, '')
  const within = (name: string): string => join(folder, name)
  if (folder === page) throw new Error(`${page}: want a file name that ends in .md`)
  mkdirSync(folder, { recursive: true })
  const drawn = pictures(record)
  for (const [name, svg] of drawn) writeFileSync(within(name), svg)
  writeFileSync(within('figures.json'), recordText(record))
  const toFolder = relative(dirname(page), folder) || basename(folder)
  const link = (name: string): string => `${toFolder}/${name}`
  const text = markdownReport(record, {
    pictures: [...drawn.keys()].map(link),
    json: link('figures.json'),
  })
  writeFileSync(page, text)
  return [page, folder]
}
