/** Text for XML and HTML, in elements and in attributes. What XML can't hold is replaced. */
export const escaped = (text: string): string =>
  text
    .replaceAll(unwritable, '\u{fffd}')
    .replaceAll(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)

/** Control characters and halves of characters (XML 1.0, 2.2). */
const unwritable = /[^\P{Cc}\t\n\r]|\p{Surrogate}|[\uFFFE\uFFFF]/gu

type Attributes = Readonly<Record<string, string | number | undefined>>

/** An element of XML. Attributes are escaped here, undefined ones left out; children are markup. */
export const element = (
  name: string,
  attributes: Attributes,
  ...children: readonly string[]
): string => {
  let open = `<${name}`
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined)
      open += ` ${key}="${typeof value === 'number' ? coordinate(value) : escaped(value)}"`
  return children.length === 0 ? `${open}/>` : `${open}>${children.join('')}</${name}>`
}

/** A tenth of a pixel is all that can be seen. */
const coordinate = (value: number): string => String(Math.round(value * 10) / 10)

/** Plain text at a place. */
export const label = (
  x: number,
  y: number,
  text: string,
  attributes: Attributes = {},
): string => element('text', { x, y, ...attributes }, escaped(text))

/** `text` cut to fit into so many pixels. Fonts differ: it reckons with a wide one. */
export const fitted = (text: string, pixels: number, fontSize: number): string => {
  const room = Math.max(1, Math.floor(pixels / (fontSize * wideCharacter)))
  const characters = Array.from(text)
  return characters.length <= room ? text : `${characters.slice(0, room - 1).join('')}…`
}

/** How many pixels `text` takes at most, nearly. */
export const widthOf = (text: string, fontSize: number): number =>
  Array.from(text).length * fontSize * wideCharacter

const wideCharacter = 0.58

type Colours = Readonly<Record<string, string>>

/** Few: Usher's hue, greys for what it is compared with, and orange for what is worse. */
const light: Colours = {
  paper: '#ffffff',
  raised: '#f6f7f9',
  ink: '#1a1d21',
  muted: '#59626d',
  line: '#dfe3e8',
  usher: '#1c5fd0',
  variant: '#6f9ae0',
  peer: '#757d87',
  floor: '#a3a9b1',
  given: '#7d8a5c',
  direct: '#30353b',
  bad: '#b3261e',
  better: '28, 95, 208',
  worse: '214, 110, 10',
}
const dark: Colours = {
  paper: '#14171b',
  raised: '#1c2026',
  ink: '#e7e9ec',
  muted: '#a0a9b4',
  line: '#2f353d',
  usher: '#6ba4ff',
  variant: '#527fc4',
  peer: '#98a0ab',
  floor: '#737b86',
  given: '#9aa873',
  direct: '#c9ced5',
  bad: '#ff8a80',
  better: '107, 164, 255',
  worse: '240, 150, 60',
}

const inTheDark = (css: string): string =>
  `@media screen and (prefers-color-scheme: dark) { ${css} }`

const variables = (colours: Colours): string =>
  Object.entries(colours)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(' ')

/** The colours of reports, light and dark, as CSS variables of whatever `selector` names. */
export const palette = (selector: string): string =>
  [
    `${selector} { ${variables(light)} color-scheme: light; }`,
    inTheDark(`${selector} { ${variables(dark)} color-scheme: dark; }`),
  ].join('\n')

const painted = (css: string, colours: Colours): string =>
  css.replaceAll(/var\(--(\w+)\)/g, (_, name: string) => colours[name] ?? '')

/** Those of the reader's system. */
export const fonts =
  'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'

/** What the classes in drawings look like; needs the palette. */
export const drawingStyle = `svg.chart { font: 12px ${fonts}; font-variant-numeric: tabular-nums; }
.chart text { fill: var(--ink); }
.chart .muted { fill: var(--muted); }
.chart .paper { fill: var(--paper); }
.chart .small { font-size: 11px; }
.chart .head { font-weight: 600; font-size: 13px; }
.chart .end { text-anchor: end; }
.chart .mid { text-anchor: middle; }
.chart .strong { font-weight: 700; }
.chart .bad { fill: var(--bad); }
.chart .grid { stroke: var(--line); }
.chart .zero { stroke: var(--muted); }
.chart .reference { stroke: var(--direct); stroke-dasharray: 3 3; opacity: .55; }
.chart .bar { opacity: .32; }
.chart .range { stroke-width: 1.5; }
.chart .median { stroke-width: 2.5; }
.chart .hollow { fill: var(--paper); stroke-width: 1.5; }
${['direct', 'floor', 'usher', 'variant', 'peer', 'given']
  .map(
    look =>
      `.chart .${look} { fill: var(--${look}); stroke: var(--${look}); } .chart .${look} .hollow { fill: var(--paper); }`,
  )
  .join('\n')}
.chart .cell { stroke: none; fill: none; }
.chart .detour { fill: var(--line); }
${['better', 'worse']
  .flatMap(verdict =>
    [0.14, 0.3, 0.46].map(
      (alpha, index) =>
        `.chart .${verdict}-${index + 1} { fill: rgba(var(--${verdict}), ${alpha}); }`,
    ),
  )
  .join('\n')}
`

/** For a drawing that stands alone: many programs that show SVG know no CSS variables. */
export const standaloneStyle = (): string =>
  `${painted(drawingStyle, light)}${inTheDark(painted(drawingStyle, dark))}`

/** A piece of SVG with its size in pixels, not yet a document. */
export interface Drawing {
  readonly width: number
  readonly height: number
  readonly body: string
  /** For those who don't see it. */
  readonly title: string
  readonly description: string
}

/** An element to stand in an HTML page that has the palette and the style. */
export const inlineSvg = (drawing: Drawing): string => svg(drawing, drawing.body, {})

/** A file of its own, on paper of its own: pages that show it may be light or dark. */
export const standaloneSvg = (drawing: Drawing): string => {
  const { width, height, body } = drawing
  const style = element('style', {}, escapedStyle(standaloneStyle()))
  const paper = '<rect width="100%" height="100%" rx="6" class="paper"/>'
  const moved = element('g', { transform: `translate(${margin} ${margin})` }, body)
  const sized = { ...drawing, width: width + 2 * margin, height: height + 2 * margin }
  return `${svg(sized, `${style}${paper}${moved}`, { xmlns: 'http://www.w3.org/2000/svg' })}\n`
}

/** Pixels around a drawing that is a file of its own. */
export const margin = 16

const svg = (
  { width, height, title, description }: Drawing,
  content: string,
  further: Readonly<Record<string, string>>,
): string =>
  element(
    'svg',
    {
      ...further,
      class: 'chart',
      role: 'img',
      viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
      width: Math.ceil(width),
      height: Math.ceil(height),
    },
    element('title', {}, escaped(title)),
    element('desc', {}, escaped(description)),
    content,
  )

/** Quotes may stand in an element's text, and style sheets need them. */
const escapedStyle = (text: string): string =>
  text.replaceAll('&', '&#38;').replaceAll('<', '&#60;')

/** Drawings side by side in so many columns, each column as wide as its widest. */
export const arranged = (
  drawings: readonly Drawing[],
  columns: number,
  gap: number,
): Pick<Drawing, 'width' | 'height' | 'body'> => {
  let body = ''
  let top = 0
  let width = 0
  for (let from = 0; from < drawings.length; from += columns) {
    const line = drawings.slice(from, from + columns)
    let left = 0
    for (const drawing of line) {
      body += element('g', { transform: `translate(${left} ${top})` }, drawing.body)
      width = Math.max(width, left + drawing.width)
      left += drawing.width + gap
    }
    top += Math.max(...line.map(({ height }) => height)) + gap
  }
  return { width, height: Math.max(0, top - gap), body }
}
