/**
 * What text given to a flag turns into. `parse` throws BadValue with a message that
 * reads on from the flag's name: `"abc" is not a duration; give ...`.
 */
export interface Value<T> {
  readonly kind: 'value'
  readonly metavar: string
  readonly parse: (text: string) => T
}

/** A flag that may be repeated; each text is parsed on its own. */
export interface List<T> {
  readonly kind: 'list'
  readonly metavar: string
  readonly parse: (text: string) => T
}

/** A flag without a value: `--once`, `--no-once`, `--once=false`. */
export interface Switch {
  readonly kind: 'switch'
}

export type OptionType<T> = Value<T> | List<T> | Switch

export class BadValue extends Error {
  override readonly name = 'BadValue'
}

/** A BadValue that quotes `text` and says what is wrong with it and what would be right. */
export const badValue = (text: string, wrong: string, right: string): BadValue =>
  new BadValue(`${JSON.stringify(text)} ${wrong}; ${right}`)

export const value = <T>(metavar: string, parse: (text: string) => T): Value<T> => ({
  kind: 'value',
  metavar,
  parse,
})

export const list = <T>({ metavar, parse }: Value<T>): List<T> => ({
  kind: 'list',
  metavar,
  parse,
})

export const onOff: Switch = { kind: 'switch' }

/** Any text but the empty one. */
export const text = (metavar: string): Value<string> =>
  value(metavar, given => {
    if (given === '') throw new BadValue(`the value is empty; give a ${metavar}`)
    return given
  })

/** Any text, the empty one too: DaemonSets pass flags whose variables are empty. */
export const anyText = (metavar: string): Value<string> => value(metavar, given => given)

/** One of the words in `choices`. */
export const oneOf = <const T extends string>(choices: readonly T[]): Value<T> =>
  value(choices.join('|'), given => {
    const found = choices.find(choice => choice === given)
    if (found === undefined)
      throw badValue(given, 'is not one of the choices', `give ${choices.join(', ')}`)
    return found
  })

/** One of the words in `choices`, or nothing at all. */
export const oneOfOrNothing = <const T extends string>(
  choices: readonly T[],
): Value<T | ''> => {
  const { metavar, parse } = oneOf(choices)
  return value(metavar, given => (given === '' ? '' : parse(given)))
}

/** A whole decimal number from `lowest` to `highest`. */
export const integer = (lowest: number, highest: number): Value<number> =>
  value('NUMBER', given => {
    const number = /^-?\d{1,15}$/.test(given) ? Number(given) : Number.NaN
    if (!(number >= lowest && number <= highest))
      throw badValue(
        given,
        `is not a whole number from ${lowest} to ${highest}`,
        `give one without a unit, like ${Math.max(lowest, Math.min(highest, 1024))}`,
      )
    return number
  })
