import * as v from 'valibot'

/** An option as it is written in a flag and an annotation: `retry-early-close`. */
export const flagName = (option: string): string =>
  option.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** As a file would have it; '' where there is none. */
export const exampleOf = (schema: v.GenericSchema): string => {
  const [one]: readonly unknown[] = v.getExamples(schema)
  if (Array.isArray(one)) return one.join(',')
  return ['string', 'boolean', 'number'].includes(typeof one) ? String(one) : ''
}

const switches: ReadonlyMap<string, boolean> = new Map([
  ['on', true],
  ['true', true],
  ['off', false],
  ['false', false],
])

/** The value that a file would have: flags and annotations have nothing but texts. */
export const fromText = ({ type }: v.GenericSchema, text: string): unknown => {
  if (type === 'array') return text.split(',')
  if (type === 'boolean') return switches.get(text) ?? text
  return type === 'number' && /^\d+$/.test(text) ? Number(text) : text
}
