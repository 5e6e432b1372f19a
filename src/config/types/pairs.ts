import { badValue, plain, splitAtCommas, type OptionType } from './basic.ts'

const yes: ReadonlySet<string> = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const no: ReadonlySet<string> = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])

/** A truth value in the spellings that Go's strconv.ParseBool takes; else undefined. */
export const parseBool = (text: string): boolean | undefined =>
  yes.has(text) ? true : no.has(text) ? false : undefined

type Gates = Readonly<Record<string, boolean>>

const gate = (text: string): readonly [string, boolean] => {
  const [name = '', given] = text.split('=', 2).map(each => each.trim())
  const on = given === undefined ? undefined : parseBool(given)
  if (name === '' || on === undefined)
    throw badValue(text, 'is not a feature gate', 'give it as NAME=true or NAME=false')
  return [name, on]
}

/** `Name=true,Other=false`, as kube-proxy's --feature-gates; may be given several times. */
export const featureGates: OptionType<Gates, Gates> = {
  ...plain('NAME=BOOL,...', text =>
    Object.fromEntries(
      splitAtCommas(text)
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

const vmoduleItem = (text: string): VModuleItem => {
  const match = /^([^=]+)=(\d{1,9})$/.exec(text)
  if (match === null)
    throw badValue(text, 'is not a pattern with a level', 'give it as PATTERN=NUMBER')
  return { filePattern: match[1] ?? '', verbosity: Number(match[2]) }
}

/** `PATTERN=NUMBER,...`; may be given several times. */
export const vmodule: OptionType<readonly VModuleItem[], readonly VModuleItem[]> = {
  ...plain('PATTERN=NUMBER,...', text =>
    text === '' ? [] : text.split(',').map(vmoduleItem),
  ),
  join: lists => lists.flat(),
}
