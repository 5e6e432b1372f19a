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
