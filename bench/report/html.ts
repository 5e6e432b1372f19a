import type { RunRecord } from '../record/record.ts'
import { pageStyle } from './html-style.ts'
import type { Block, Cell, Group, ScenarioPart, Section, Table } from './page/blocks.ts'
import { pageOf } from './page/page.ts'
import { inlineSvg } from './svg/drawing.ts'
import { element, escaped } from './svg/element.ts'

/**
 * A run as a page of its own: no scripts, nothing loaded from elsewhere. The same record
 * gives the same page.
 */
export const htmlReport = (record: RunRecord): string => {
  const page = pageOf(record)
  const { overview, groups, appendix } = page
  const head = [
    '<meta charset="utf-8"/>',
    element('meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
    element('meta', { name: 'color-scheme', content: 'light dark' }),
    `<title>${escaped(page.title)}</title>`,
    `<style>\n${pageStyle()}</style>`,
  ].join('\n')
  const body = [
    '<header>\n',
    `<h1>${escaped(page.title)}</h1>\n`,
    markup([{ kind: 'paragraph', text: page.when, look: 'muted' }, ...page.introduction]),
    contents([overview, ...groups, appendix]),
    '</header>\n<main>\n',
    heading(overview),
    markup(overview.blocks),
    `<ul class="key" aria-label="How to read the charts">${items(page.key)}</ul>\n`,
    ...groups.map(group => section(group, groupMarkup(group))),
    section(appendix, markup(appendix.blocks)),
    '</main>\n',
  ].join('')
  return `<!doctype html>\n<html lang="en">\n<head>\n${head}\n</head>\n<body>\n${body}</body>\n</html>\n`
}

type Titled = Pick<Section, 'id' | 'title'>

/** Where in the page everything is. */
const contents = (sections: readonly Titled[]): string => {
  const links = sections.map(
    ({ id, title }) => `<li><a href="#${id}">${escaped(title)}</a></li>`,
  )
  return `<nav aria-label="Contents"><ul>${links.join('')}</ul></nav>\n`
}

const heading = ({ id, title }: Titled): string =>
  `<h2 id="${id}">${escaped(title)}</h2>\n`

const section = (titled: Titled, content: string): string =>
  `<section aria-labelledby="${titled.id}">\n${heading(titled)}${content}</section>\n`

/** Charts side by side, and below them their figures, folded. */
const groupMarkup = ({ about, scenarios }: Group): string =>
  [
    about === '' ? '' : markup([{ kind: 'paragraph', text: about }]),
    `<div class="charts">\n${scenarios.map(article).join('')}</div>\n`,
    ...scenarios.map(({ tables }) => folded(tables.title, tables.blocks)),
  ].join('')

const article = ({ title, about, drawings, notes, troubles }: ScenarioPart): string =>
  [
    `<article${drawings.length > 1 ? ' class="wide"' : ''}>\n`,
    `<h3>${escaped(title)}</h3>\n`,
    about === '' ? '' : blockMarkup({ kind: 'paragraph', text: about, look: 'muted' }),
    drawings.length === 0
      ? blockMarkup({
          kind: 'paragraph',
          text: 'This scenario has no metric.',
          look: 'bad',
        })
      : `<div class="pair">${drawings.map(inlineSvg).join('\n')}</div>\n`,
    listMarkup(notes, 'notes'),
    listMarkup(troubles, 'notes troubles'),
    '</article>\n',
  ].join('')

const markup = (blocks: readonly Block[]): string => blocks.map(blockMarkup).join('')

const blockMarkup = (block: Block): string => {
  switch (block.kind) {
    case 'paragraph':
      return `${element('p', { class: block.look }, escaped(block.text))}\n`
    case 'warning':
      return `<div class="banner" role="note">${escaped(block.text)}</div>\n`
    case 'heading':
      return `<h3>${escaped(block.text)}</h3>\n`
    case 'named':
      return `<p><strong>${escaped(block.name)}</strong>${block.text === '' ? '' : `: ${escaped(block.text)}`}</p>\n`
    case 'list':
      return listMarkup(block.items, block.look)
    case 'facts':
      return facts(block.pairs)
    case 'code':
      return `<pre tabindex="0"><code>${escaped(block.text)}</code></pre>\n`
    case 'folded':
      return folded(block.summary, block.content)
    case 'table':
      break
  }
  return table(block)
}

const folded = (summary: string, content: readonly Block[]): string =>
  `<details><summary>${escaped(summary)}</summary>\n${markup(content)}</details>\n`

const items = (texts: readonly string[]): string =>
  texts.map(text => element('li', {}, escaped(text))).join('')

const listMarkup = (texts: readonly string[], look?: string): string =>
  texts.length === 0 ? '' : `${element('ul', { class: look }, items(texts))}\n`

const facts = (pairs: readonly (readonly [string, string])[]): string =>
  `<dl class="facts">${pairs
    .map(
      ([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`,
    )
    .join('\n')}</dl>\n`

/** Scrolls sideways where there is no room. */
const table = ({ caption, head, sections, look }: Table): string => {
  const columns = head.map(cell => cellOf('th', cell, { scope: 'col' })).join('')
  const bodies = sections.map(({ heading: over, lines }) => {
    const rows = lines.map(([first = '', ...rest]) => {
      const cells = rest.map(cell => cellOf('td', cell)).join('')
      return `<tr>${cellOf('th', first, { scope: 'row' })}${cells}</tr>\n`
    })
    const attributes = { scope: 'rowgroup', colspan: head.length }
    const row = `<tr class="section">${element('th', attributes, escaped(over))}</tr>\n`
    return `<tbody>${over === '' ? '' : row}${rows.join('')}</tbody>`
  })
  return `<div class="scroll" role="region" tabindex="0" aria-label="${escaped(caption)}"><table class="${look}"><caption>${escaped(caption)}</caption><thead><tr>${columns}</tr></thead>\n${bodies.join('\n')}</table></div>\n`
}

const cellOf = (
  name: 'td' | 'th',
  cell: Cell,
  attributes: Readonly<Record<string, string>> = {},
): string => {
  if (typeof cell === 'string') return element(name, attributes, escaped(cell))
  const { text, small = [], look, detail } = cell
  const below =
    small.length === 0 ? '' : element('small', {}, small.map(escaped).join('<br/>'))
  const isOwn = look === 'own'
  return element(
    name,
    { ...attributes, class: isOwn ? undefined : look, title: detail },
    isOwn ? element('span', { class: look }, escaped(text)) : escaped(text),
    below,
  )
}
