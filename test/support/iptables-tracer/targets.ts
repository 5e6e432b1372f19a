import { parseSocket, socketText } from './addresses.ts'
import { hex, readMark } from './matches.ts'

export type Target = {
  /** From `-j` on, in the canonical form. */
  readonly words: readonly string[]
} & (
  | { readonly kind: 'ACCEPT' | 'DROP' | 'REJECT' | 'RETURN' | 'MASQUERADE' }
  | { readonly kind: 'MARK'; readonly change: (mark: number) => number }
  | { readonly kind: 'DNAT'; readonly address: string; readonly port: number }
  | { readonly kind: 'chain'; readonly chain: string }
)

/** From the words after `-j`. */
export const parseTarget = ([name = '', ...options]: readonly string[]): Target => {
  switch (name) {
    case 'ACCEPT':
    case 'DROP':
    case 'RETURN':
      return bare(name, options)
    case 'REJECT':
      // What it is by default, in each family.
      if (!/^(?:--reject-with icmp6?-port-unreachable)?$/.test(options.join(' ')))
        throw new Error(`unknown options of REJECT: ${options.join(' ')}`)
      return { kind: name, words: ['-j', name] }
    case 'MASQUERADE':
      return options.join(' ') === '--random-fully'
        ? { kind: name, words: ['-j', name, '--random-fully'] }
        : bare(name, options)
    case 'MARK':
      return markTarget(options)
    case 'DNAT':
      return dnat(options)
    default:
      if (/^[A-Z]+$/.test(name)) throw new Error(`unknown target ${name}`)
      if (options.length > 0) throw new Error(`options of chain ${name}`)
      return { kind: 'chain', chain: name, words: ['-j', name] }
  }
}

const bare = (
  kind: 'ACCEPT' | 'DROP' | 'RETURN' | 'MASQUERADE',
  options: readonly string[],
): Target => {
  if (options.length > 0) throw new Error(`unknown option ${options[0]} of ${kind}`)
  return { kind, words: ['-j', kind] }
}

/** iptables-save knows only --set-xmark: clear the bits of the mask, then xor the value. */
const markTarget = ([option, text = '', ...rest]: readonly string[]): Target => {
  const { value, mask } = xmark(option, text)
  if (rest.length > 0) throw new Error(`unknown option ${rest[0]} of MARK`)
  return {
    kind: 'MARK',
    change: old => ((old & ~mask) ^ value) >>> 0,
    words: ['-j', 'MARK', '--set-xmark', `${hex(value)}/${hex(mask)}`],
  }
}

const xmark = (option: string | undefined, text: string) => {
  const { value, mask } = readMark(text)
  if (option === '--set-xmark') return { value, mask }
  if (option === '--or-mark') return { value, mask: value }
  if (option === '--xor-mark') return { value, mask: 0 }
  throw new Error(`unknown option ${option} of MARK`)
}

const dnat = ([option, text = '', ...rest]: readonly string[]): Target => {
  if (option !== '--to-destination' || rest.length > 0)
    throw new Error(`unknown options of DNAT: ${[option, text, ...rest].join(' ')}`)
  const { address, port } = parseSocket(text)
  const to = socketText(address, port)
  return { kind: 'DNAT', address, port, words: ['-j', 'DNAT', '--to-destination', to] }
}
