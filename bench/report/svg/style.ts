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
