import type { RunRecord } from '../../record/record.ts'
import { element, escaped } from '../svg/element.ts'
import { appendix } from './appendix.ts'
import { groupSections } from './groups.ts'
import { contents, introduction } from './intro.ts'
import { overview } from './overview.ts'
import { pageStyle } from './style.ts'

/**
 * A run as a page of its own: no scripts, nothing loaded from elsewhere. The same record
 * gives the same page.
 */
export const htmlReport = (record: RunRecord): string => {
  const head = [
    '<meta charset="utf-8"/>',
    element('meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
    element('meta', { name: 'color-scheme', content: 'light dark' }),
    `<title>${escaped(record.title)}</title>`,
    `<style>\n${pageStyle()}</style>`,
  ].join('\n')
  const body = [
    `<header>\n${introduction(record)}${contents(record)}</header>\n`,
    `<main>\n${overview(record)}${key}${groupSections(record)}${appendix(record)}</main>\n`,
  ].join('')
  return `<!doctype html>\n<html lang="en">\n<head>\n${head}\n</head>\n<body>\n${body}</body>\n</html>\n`
}

const key = `<ul class="key" aria-label="How to read the charts"><li>Bar: from zero to the median of the rounds</li><li>Dots: each round</li><li>Line: least to most</li><li>Dashed: the direct path</li><li>!: something went wrong</li></ul>\n`
