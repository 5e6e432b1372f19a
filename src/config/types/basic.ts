import { suggest } from '../../util/suggest.ts'

/**
 * How the text of a flag becomes the value that its field in a file would have, and how
 * that becomes what Usher goes by. Both throw BadValue, in words that read on from the
 * name of flag or field: `"abc" is not a duration; give ...`.
 */
export interface OptionType<T, F = unknown> {
  /** What stands for a value in help; '' for a switch: `--once`, `--no-once`, `--once=false`. */
  readonly metavar: string
  /** The words that it takes, where there are no others. */
  readonly choices?: readonly string[]
  parse(text: string): F
  /** Of a flag that may be repeated: one value from all. Without it the last one counts. */
  join?(values: readonly F[]): F
  read(value: F): T
}

export class BadValue extends Error {
  override readonly name = 'BadValue'
}

/** A BadValue that quotes `text` and says what is wrong with it and what would be right. */
export const badValue = (text: string, wrong: string, right: string): BadValue =>
  new BadValue(`${JSON.stringify(text)} ${wrong}; ${right}`)

/** What a file has as text, too. */
export const textual = <T>(
  metavar: string,
  read: (text: string) => T,
): OptionType<T, string> => ({ metavar, parse: text => text, read })

/** What Usher goes by just as a file has it. */
export const plain = <T>(
  metavar: string,
  parse: (text: string) => T,
): OptionType<T, T> => ({ metavar, parse, read: value => value })

/** A flag that may be repeated; a file has a list of texts. */
export const list = <T>(
  item: OptionType<T, string>,
): OptionType<readonly T[], readonly string[] | null> => ({
  metavar: item.metavar,
  ...(item.choices !== undefined && { choices: item.choices }),
  parse: text => [text],
  join: lists => lists.flatMap(texts => texts ?? []),
  read: texts => (texts ?? []).map(text => item.read(text)),
})

/** The same, with commas between the values of each text; none in the empty text. */
export const commaList = <T>(
  item: OptionType<T, string>,
): OptionType<readonly T[], readonly string[] | null> => ({
  ...list(item),
  metavar: `${item.metavar},...`,
  parse: splitAtCommas,
})

export const splitAtCommas = (text: string): readonly string[] =>
  text === '' ? [] : text.split(',').map(part => part.trim())

/** For texts in which the command line has already written `true` or `false`. */
export const onOff = plain('', text => text === 'true')

/** Any text but the empty one. */
export const text = (metavar: string): OptionType<string, string> =>
  textual(metavar, given => {
    if (given === '') throw new BadValue(`the value is empty; give a ${metavar}`)
    return given
  })

/** Any text, the empty one too: DaemonSets pass flags whose variables are empty. */
export const anyText = (metavar: string): OptionType<string, string> =>
  textual(metavar, given => given)

/** `did you mean iptables? ...`, with all of them. */
const choiceHint = (given: string, choices: readonly string[]): string => {
  const meant = suggest(given, choices)
  const all = `give ${choices.join(', ')}`
  return meant === undefined ? all : `did you mean ${meant}? Or ${all}`
}

/** One of the words in `choices`. */
export const oneOf = <const T extends string>(
  choices: readonly T[],
): OptionType<T, string> => ({
  ...textual(choices.join('|'), given => {
    const found = choices.find(choice => choice === given)
    if (found === undefined)
      throw badValue(given, 'is not one of the choices', choiceHint(given, choices))
    return found
  }),
  choices,
})

/** One of the words in `choices`, or nothing at all. */
export const oneOfOrNothing = <const T extends string>(
  metavar: string,
  choices: readonly T[],
): OptionType<T | '', string> => {
  const word = oneOf(choices)
  const type = textual(metavar, given => (given === '' ? '' : word.read(given)))
  return { ...type, choices }
}

const yes: ReadonlySet<string> = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const no: ReadonlySet<string> = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])

/** A truth value in the spellings that Go's strconv.ParseBool takes; else undefined. */
export const parseBool = (given: string): boolean | undefined =>
  yes.has(given) ? true : no.has(given) ? false : undefined

type Gates = Readonly<Record<string, boolean>>

const gate = (part: string): readonly [string, boolean] => {
  const [name = '', given] = part.split('=', 2).map(each => each.trim())
  const on = given === undefined ? undefined : parseBool(given)
  if (name === '' || on === undefined)
    throw badValue(part, 'is not a feature gate', 'give it as NAME=true or NAME=false')
  return [name, on]
}

/** `Name=true,Other=false`, as kube-proxy's --feature-gates; may be given several times. */
export const featureGates: OptionType<Gates, Gates> = {
  ...plain('NAME=BOOL,...', given =>
    Object.fromEntries(
      splitAtCommas(given)
        .filter(part => part !== '')
        .map(gate),
    ),
  ),
  join: all => Object.fromEntries(all.flatMap(gates => Object.entries(gates))),
}

/** The verbosity of the files that a pattern names, as kube-proxy logs. */
export interface VModuleItem {
  readonly filePattern: string
  readonly verbosity: number
}

const vmoduleItem = (given: string): VModuleItem => {
  const match = /^([^=]+)=(\d{1,9})$/.exec(given)
  if (match === null)
    throw badValue(given, 'is not a pattern with a level', 'give it as PATTERN=NUMBER')
  return { filePattern: match[1] ?? '', verbosity: Number(match[2]) }
}

/** `PATTERN=NUMBER,...`; may be given several times. */
export const vmodule: OptionType<readonly VModuleItem[], readonly VModuleItem[]> = {
  ...plain('PATTERN=NUMBER,...', given =>
    given === '' ? [] : given.split(',').map(vmoduleItem),
  ),
  join: lists => lists.flat(),
}
