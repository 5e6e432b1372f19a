import { defaultText, flagsWithoutEffect, flagText } from '../src/cli/help.ts'
import { commandNames, type Command } from '../src/config/commands.ts'
import { rowsOf, type Rows } from '../src/config/options.ts'
import { defaultOf, helpOf, type Row } from '../src/config/row.ts'
import { styled } from './styled.ts'

const begin = '<!-- flags:begin -->'
const end = '<!-- flags:end -->'

/** A bar would end the cell, even inside a code span. */
const cell = (text: string): string => text.replaceAll('|', String.raw`\|`)

const code = (text: string): string => `\`${cell(text)}\``

const defaultCell = (row: Row, command: Command): string => {
  const shown = defaultText(row, command)
  return shown === '' || row.defaultText !== undefined ? shown : code(shown)
}

const tableOf = (command: Command, rows: Rows): string =>
  [
    '| Flag | Default | Meaning |',
    '| --- | --- | --- |',
    ...rows.map(
      ([flag, row]) =>
        `| ${code(flagText(flag, row))} | ${defaultCell(row, command)} | ${cell(helpOf(row, command))} |`,
    ),
  ].join('\n')

/** What `run` has with the same default and meaning; the table of `run` says it all. */
const sharedWithRun = ([, row]: readonly [string, Row], command: Command): boolean =>
  command !== 'run' &&
  row.commands.includes('run') &&
  helpOf(row, command) === helpOf(row, 'run') &&
  defaultOf(row, command) === defaultOf(row, 'run')

/** Those of `run` that do nothing, a line for each reason. */
const withoutEffect = (): string =>
  [
    'Accepted for compatibility with kube-proxy; the log names them once if they are given:',
    [
      '| No effect | Flags |',
      '| --- | --- |',
      ...[...flagsWithoutEffect('run')].map(
        ([reason, flags]) => `| ${cell(reason)} | ${flags.map(code).join(', ')} |`,
      ),
    ].join('\n'),
  ].join('\n\n')

const section = (command: Command): string => {
  const rows = rowsOf(command)
  const shared = rows.filter(row => sharedWithRun(row, command))
  const own = rows.filter(row => !sharedWithRun(row, command))
  const list = shared.map(([flag]) => code(`--${flag}`)).join(', ')
  if (own.length === 0) return `## \`usher ${command}\`\n\nAll flags of \`usher run\`.`
  return [
    `## \`usher ${command}\``,
    tableOf(command, own),
    ...(command === 'run' ? [withoutEffect()] : []),
    ...(list === '' ? [] : [`As for \`usher run\`: ${list}.`]),
  ].join('\n\n')
}

/**
 * The page with the block between its two markers written anew from the option table,
 * as prettier would have it. Throws when a marker is missing.
 */
export const withFlagsTable = async (page: string): Promise<string> => {
  const from = page.indexOf(begin)
  const to = page.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`the page has no ${begin} ... ${end}`)
  const sections = commandNames.map(section).join('\n\n')
  const block = await styled(sections, 'markdown')
  return `${page.slice(0, from + begin.length)}\n\n${block}\n${page.slice(to)}`
}
