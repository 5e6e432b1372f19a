import { badValue, list, value, type List } from './value.ts'

/** The verbosity of the files that a pattern names, as kube-proxy logs. */
export interface VModuleItem {
  readonly filePattern: string
  readonly verbosity: number
}

const item = (text: string): VModuleItem => {
  const match = /^([^=]+)=(\d{1,9})$/.exec(text)
  if (match === null)
    throw badValue(text, 'is not a pattern with a level', 'give it as PATTERN=NUMBER')
  return { filePattern: match[1] ?? '', verbosity: Number(match[2]) }
}

/** `PATTERN=NUMBER,...`. */
export const parseVModule = (text: string): readonly VModuleItem[] =>
  text === '' ? [] : text.split(',').map(item)

export const vmodule: List<readonly VModuleItem[]> = list(
  value('PATTERN=NUMBER,...', parseVModule),
)
