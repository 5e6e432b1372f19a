import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { recordText, type RunRecord } from './record/record.ts'
import { htmlReport } from './report/html.ts'
import { markdownReport } from './report/markdown.ts'
import { pictures } from './report/svg/pictures.ts'

/** Where results are to go; '' for no page. */
export interface Outputs {
  readonly output: string
  readonly markdown: string
}

/** What was written, and in words what could not be. */
export interface Kept {
  readonly written: readonly string[]
  readonly troubles: readonly string[]
}

/** More than results have taken so far. */
const roomBytes = 2 * 1024 * 1024
/** Where results go that could not be written where they should; a sandbox leaves both. */
const refuges = ['/tmp', '/var/tmp', '.'] as const

/**
 * Tries to write in all places where results are to go, so that this is known before half an
 * hour of measuring; leaves nothing behind. Throws in words.
 * @param hidden - a directory that the bench will not see as it is outside; '' for none
 */
export const checkOutputs = ({ output, markdown }: Outputs, hidden: string): void => {
  tryToWrite('--output', output, hidden)
  if (markdown === '') return
  tryToWrite('--markdown', folderOf(markdown), hidden)
  tryToWrite('--markdown', dirname(markdown), hidden)
}

const tryToWrite = (flag: string, folder: string, hidden: string): void => {
  let made: string | undefined
  let place = folder
  try {
    made = makeFolder(folder)
    place = realpathSync(folder)
    const trial = join(folder, `.usher-bench-${process.pid}`)
    writeWhole(trial, 'x'.repeat(roomBytes))
    rmSync(trial)
  } catch (error) {
    throw cantBeWritten(`${flag} ${folder}`, error)
  } finally {
    if (made !== undefined) rmSync(made, { recursive: true, force: true })
  }
  if (hidden !== '' && `${place}/`.startsWith(`${hidden}/`))
    throw new Error(
      `${flag} ${folder} is within ${hidden}, of which the bench has one of its own that ` +
        'ends with it; give a directory elsewhere',
    )
}

/**
 * With those above it; gives the first that was made. Node's own `recursive` never ends
 * where a file system answers ENOENT to mkdir, such as /proc.
 */
const makeFolder = (folder: string): string | undefined => {
  if (existsSync(folder) && statSync(folder).isDirectory()) return undefined
  const above = dirname(folder)
  const first = above === folder ? undefined : makeFolder(above)
  mkdirSync(folder)
  return first ?? folder
}

const cantBeWritten = (what: string, error: unknown): Error => {
  const why = error instanceof Error ? error.message : String(error)
  return new Error(
    `${what} can't be written: ${why}; give a directory that can, with room in it`,
    {
      cause: error,
    },
  )
}

/** Leaves no half of a file, such as on a full disk. */
const writeWhole = (path: string, text: string, flag: 'w' | 'wx' = 'w'): void => {
  try {
    writeFileSync(path, text, { flag })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') rmSync(path, { force: true })
    throw error
  }
}

/**
 * Writes the figures (JSON) and the reports. What can't be written does not keep the rest
 * out; figures that can't go where they should go to a directory for temporary files, and
 * with no room there to `say`.
 */
export const keepResults = (
  record: RunRecord,
  { output, markdown }: Outputs,
  say: (text: string) => void,
): Kept => {
  const written: string[] = []
  const troubles: string[] = []
  const attempt = (what: string, write: () => readonly string[]): boolean => {
    try {
      written.push(...write())
      return true
    } catch (error) {
      troubles.push(cantBeWritten(what, error).message)
      return false
    }
  }
  const places = [() => output, ...refuges.map(refuge => () => newFolder(refuge))]
  const kept = places.some(place =>
    attempt('the figures', () => writeFigures(record, place())),
  )
  if (!kept) say(recordText(record))
  const [json] = written
  if (json !== undefined) attempt('the report', () => [writeHtmlBeside(record, json)])
  if (markdown !== '') attempt('the page', () => writeMarkdown(record, markdown))
  return { written, troubles }
}

const newFolder = (within: string): string => mkdtempSync(join(within, 'usher-bench-'))

/** Named after the time of the run; one of the same second stays. */
const writeFigures = (record: RunRecord, folder: string): readonly [string] => {
  makeFolder(folder)
  const name = `usher-bench-${record.startedAt.slice(0, 19).replaceAll(':', '-')}`
  for (let n = 1; ; n += 1) {
    const json = join(folder, n === 1 ? `${name}.json` : `${name}-${n}.json`)
    try {
      writeWhole(json, recordText(record), 'wx')
      return [json]
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/**
 * Writes figures and report into `folder`, which is made. Gives their paths; throws when
 * they can't be written.
 */
export const writeResults = (record: RunRecord, folder: string): readonly string[] => {
  const [json] = writeFigures(record, folder)
  return [json, writeHtmlBeside(record, json)]
}

const writeHtmlBeside = (record: RunRecord, json: string): string =>
  writeHtml(record, json.replace(/\.json$/, '.html'))

export const writeHtml = (record: RunRecord, path: string): string => {
  writeWhole(path, htmlReport(record))
  return path
}

/** Where the pictures and figures of a page go. Throws for one that does not end in .md. */
const folderOf = (page: string): string => {
  const folder = page.replace(/\.md$/, '')
  if (folder === page || /(?:^|\/)$/.test(folder))
    throw new Error(`--markdown ${page}: give the name of a file that ends in .md`)
  return folder
}

/** The page, and beside it a folder of its name with pictures and figures. */
export const writeMarkdown = (record: RunRecord, page: string): readonly string[] => {
  const folder = folderOf(page)
  const within = (name: string): string => join(folder, name)
  makeFolder(folder)
  const drawn = pictures(record)
  for (const [name, svg] of drawn) writeWhole(within(name), svg)
  writeWhole(within('figures.json'), recordText(record))
  const toFolder = relative(dirname(page), folder) || basename(folder)
  const link = (name: string): string => `${toFolder}/${name}`
  const text = markdownReport(record, {
    pictures: [...drawn.keys()].map(link),
    json: link('figures.json'),
  })
  writeWhole(page, text)
  return [page, folder]
}
