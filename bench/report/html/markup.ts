import { element, escaped } from '../svg/element.ts'

/** A cell of a table: text, or markup that has been escaped already. */
export type Cell =
  string | { readonly markup: string; readonly class?: string; readonly title?: string }

export interface TableParts {
  /** For those who don't see what stands above it. */
  readonly caption: string
  readonly head: readonly Cell[]
  /** Lines by sections, each under a heading, '' for none. */
  readonly sections: readonly {
    readonly heading: string
    readonly lines: readonly (readonly Cell[])[]
  }[]
  readonly class?: string
}

/** A table whose first column names the lines; it scrolls sideways where there is no room. */
export const table = ({
  caption,
  head,
  sections,
  class: look = '',
}: TableParts): string => {
  const columns = head.map(cell => cellOf('th', cell, { scope: 'col' })).join('')
  const bodies = sections.map(({ heading, lines }) => {
    const rows = lines.map(([first = '', ...rest]) => {
      const cells = rest.map(cell => cellOf('td', cell)).join('')
      return `<tr>${cellOf('th', first, { scope: 'row' })}${cells}</tr>\n`
    })
    const over =
      heading === ''
        ? ''
        : `<tr class="section">${element('th', { scope: 'rowgroup', colspan: head.length }, escaped(heading))}</tr>\n`
    return `<tbody>${over}${rows.join('')}</tbody>`
  })
  return `<div class="scroll" role="region" tabindex="0" aria-label="${escaped(caption)}"><table class="${escaped(look)}"><caption>${escaped(caption)}</caption><thead><tr>${columns}</tr></thead>\n${bodies.join('\n')}</table></div>\n`
}

const cellOf = (
  name: 'td' | 'th',
  cell: Cell,
  attributes: Readonly<Record<string, string>> = {},
): string =>
  typeof cell === 'string'
    ? element(name, attributes, escaped(cell))
    : element(name, { ...attributes, class: cell.class, title: cell.title }, cell.markup)

/** Folded until somebody asks for it. `summary` is text, `content` markup. */
export const folded = (summary: string, content: string): string =>
  `<details><summary>${escaped(summary)}</summary>\n${content}</details>\n`

export const paragraph = (text: string, look?: string): string =>
  `${element('p', { class: look }, escaped(text))}\n`

/** '' for an empty list. */
export const list = (items: readonly string[], look?: string): string =>
  items.length === 0
    ? ''
    : `${element('ul', { class: look }, ...items.map(item => element('li', {}, escaped(item))))}\n`

/** Names with what they stand for. */
export const facts = (
  pairs: readonly (readonly [name: string, value: string])[],
): string =>
  pairs.length === 0
    ? ''
    : `<dl class="facts">${pairs
        .map(
          ([name, value]) =>
            `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`,
        )
        .join('\n')}</dl>\n`

/** Text as it is, such as a file. */
export const verbatim = (text: string): string =>
  `<pre tabindex="0"><code>${escaped(text)}</code></pre>\n`
