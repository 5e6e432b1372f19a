import { parseCidr } from '../../util/cidr.ts'
import { badValue, commaList, splitAtCommas, textual, type OptionType } from './basic.ts'

const example = 'give one like 10.0.0.0/8 or fd00::/8'

const checked = (text: string): string => {
  if (parseCidr(text) === undefined) throw badValue(text, 'is not a CIDR', example)
  return text
}

/** CIDRs with commas between them, as given. */
export const cidrList = commaList(textual('CIDR', checked))

/** True when there are two CIDRs, one of each family. */
export const isDualStack = (cidrs: readonly string[]): boolean => {
  const families = new Set(cidrs.map(cidr => parseCidr(cidr)?.family))
  return cidrs.length === 2 && families.size === 2 && !families.has(undefined)
}

/** No CIDR, one, or one of each family. */
export const cidrPair: OptionType<readonly string[], string> = textual(
  'CIDR[,CIDR]',
  text => {
    const cidrs = splitAtCommas(text).map(checked)
    if (cidrs.length > 1 && !isDualStack(cidrs))
      throw badValue(
        text,
        'is not a dual-stack pair of CIDRs',
        'give one, or one of each family like 10.0.0.0/8,fd00::/8',
      )
    return cidrs
  },
)

const words: readonly string[] = ['primary', 'localhost', 'all']

/** True for what stands for addresses of a node in place of a CIDR (kube-proxy 1.37). */
export const isNodePortWord = (text: string): boolean => words.includes(text)

/**
 * Whether this one, although good by itself, can't be taken together with the others: as
 * to kube-proxy 1.36, which has no other words, `primary` is not for lists of CIDRs.
 */
export const standsBesideCidrs = (text: string, all: readonly string[]): boolean =>
  text === 'primary' && !all.every(isNodePortWord)

/** What NodePorts are answered on: CIDRs, or `primary`, `localhost` and `all`. */
export const nodePortAddresses = commaList(
  textual('CIDR', part => {
    if (isNodePortWord(part) || parseCidr(part) !== undefined) return part
    throw badValue(part, 'is not a CIDR', `${example}, or one of ${words.join(', ')}`)
  }),
)
