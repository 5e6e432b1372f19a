import type { RunRecord } from '../record/record.ts'
import {
  type Block,
  type Cell,
  type Group,
  pageOf,
  type ScenarioPart,
  type Section,
  type Table,
} from './page.ts'
import {
  drawingStyle,
  element,
  escaped,
  fonts,
  inlineSvg,
  palette,
} from './svg/drawing.ts'

/** Everything that a report's page looks like: nothing is loaded from elsewhere. */
const pageStyle = (): string => `${palette(':root')}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 ${fonts}; }
dt::first-letter { text-transform: uppercase; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 .5rem; padding-top: .75rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 0 0 .25rem; }
p, ul { margin: 0 0 .75rem; max-width: 44rem; }
ul { padding-left: 1.2rem; }
a { color: var(--usher); }
.muted, .notes { color: var(--muted); font-size: .875rem; }
.bad { color: var(--bad); }
ul.troubles { list-style: none; padding-left: 0; }
ul.troubles li::before { content: '! '; color: var(--bad); font-weight: 700; }
.banner { border-left: 5px solid var(--bad); background: var(--raised); padding: .75rem 1rem; margin: 1rem 0; font-weight: 600; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: .5rem 1.5rem; margin: 1rem 0; font-size: .875rem; }
.facts dt { color: var(--muted); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; max-width: none; }

.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; border-top: 1px solid var(--line); }
thead th { border-top: 0; vertical-align: bottom; font-weight: 600; }
th:first-child { text-align: left; padding-left: 0; font-weight: 400; }
thead th:first-child, tr.usher > th, tr.section > th { font-weight: 700; }
tr.section > th { padding-top: 1rem; border-top: 0; }
td small, th small { display: block; color: var(--muted); font-size: .75rem; font-weight: 400; white-space: nowrap; }
td.words, th.words { text-align: left; white-space: normal; min-width: 11rem; }
th .own { font-weight: 700; }
.figures th, .figures td { padding-left: .4rem; padding-right: .4rem; }
.figures td, .figures tbody th { white-space: nowrap; } .figures td.words { white-space: normal; }
.overview { width: 100%; }
.overview th:not(:first-child), .overview td { text-align: center; width: 6.5rem; }
.overview td { border-left: 3px solid var(--paper); }
.overview td small { color: inherit; }
td.detour { background: var(--line); }
td.none, td.even { color: var(--muted); }
${['better', 'worse']
  .flatMap(verdict =>
    [0.14, 0.3, 0.46].map(
      (alpha, index) =>
        `td.${verdict}-${index + 1} { background: rgba(var(--${verdict}), ${alpha}); }`,
    ),
  )
  .join('\n')}

.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 2rem 2rem; margin: 1.25rem 0 1rem; }
.charts article { min-width: 0; break-inside: avoid; }
.charts article.wide { grid-column: 1 / -1; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem 2rem; }
svg.chart { display: block; width: 100%; max-width: 31rem; height: auto; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; padding: 0; max-width: none; color: var(--muted); font-size: .875rem; }
#overview ~ details > summary { font-size: .875rem; }
details { margin: .25rem 0; }
summary { cursor: pointer; padding: .25rem 0; }
details > :not(summary) { margin-left: 1rem; }
pre { background: var(--raised); padding: .75rem; overflow-x: auto; font-size: .8125rem; line-height: 1.4; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
${drawingStyle}
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 3rem; }
  table { font-size: .8125rem; }
  th, td { padding: .3rem .35rem; }
  .overview th:not(:first-child), .overview td { width: auto; padding: .3rem .1rem; }
  .overview small { white-space: normal; overflow-wrap: anywhere; }
  .overview { table-layout: fixed; }
  .overview th:first-child { width: 36%; padding-right: .4rem; overflow-wrap: anywhere; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  td, svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  nav { display: none; }
  h2, h3, summary { break-after: avoid; }
  tr { break-inside: avoid; }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  pre { white-space: pre-wrap; }
}
`

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
