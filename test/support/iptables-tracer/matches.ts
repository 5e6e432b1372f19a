import { canonicalCidr, inCidr, inRange } from './addresses.ts'

/** What a rule can ask about a packet. */
export interface Moment {
  readonly source: string
  readonly destination: string
  readonly port: number
  readonly protocol: string
  /** '' in OUTPUT and POSTROUTING. */
  readonly inInterface: string
  readonly mark: number
  /** conntrack's, and DNAT. */
  readonly states: ReadonlySet<string>
  readonly isLocal: (address: string) => boolean
  /** Lists of xt_recent that hold the source; undefined: any may. */
  readonly seen: ReadonlySet<string> | undefined
}

/** A number is how likely it holds. */
export type Answer = boolean | number | 'unknown'

export interface Match {
  /** In the canonical form. */
  readonly words: readonly string[]
  readonly test: (moment: Moment) => Answer
}

export interface Option {
  readonly not: boolean
  readonly value: string
}

type Options = ReadonlyMap<string, Option>

interface Module {
  /** Its options, and how many words follow each. */
  readonly takes: Readonly<Record<string, 0 | 1>>
  readonly match: (options: Options, module: string) => Match
}

const needed = (options: Options, name: string): Option => {
  const option = options.get(name)
  if (option === undefined) throw new Error(`--${name} is missing`)
  return option
}

/** Most have one option, which can be turned round. */
const single = (
  name: string,
  read: (value: string) => { text: string; holds: (moment: Moment) => boolean },
): Module => ({
  takes: { [name]: 1 },
  match: options => {
    const { not, value } = needed(options, name)
    const { text, holds } = read(value)
    return {
      words: [...(not ? ['!'] : []), `--${name}`, text],
      test: moment => holds(moment) !== not,
    }
  },
})

const states = new Set(['DNAT', 'ESTABLISHED', 'INVALID', 'NEW', 'RELATED'])

const conntrack = single('ctstate', value => {
  const wanted = value.split(',').toSorted()
  for (const state of wanted)
    if (!states.has(state)) throw new Error(`unknown state ${state}`)
  return {
    text: wanted.join(','),
    holds: moment => wanted.some(state => moment.states.has(state)),
  }
})

export const hex = (value: number): string => `0x${value.toString(16)}`

/** `0x4000/0x4000`; without the second all bits count. */
export const readMark = (text: string): { value: number; mask: number } => {
  const [value, mask = 0xffff_ffff] = text.split('/').map(Number)
  if (value === undefined || Number.isNaN(value + mask))
    throw new Error(`not a mark: ${text}`)
  return { value, mask }
}

const mark = single('mark', text => {
  const { value, mask } = readMark(text)
  return {
    text: `${hex(value)}/${hex(mask)}`,
    holds: moment => (moment.mark & mask) === value,
  }
})

const addressType = (name: 'src-type' | 'dst-type'): Module =>
  single(name, text => {
    if (text !== 'LOCAL') throw new Error(`unknown address type ${text}`)
    return {
      text,
      holds: ({ isLocal, source, destination }) =>
        isLocal(name === 'src-type' ? source : destination),
    }
  })

const addrtype: Module = {
  takes: { 'src-type': 1, 'dst-type': 1 },
  match: (options, module) => {
    if (options.size !== 1) throw new Error('addrtype wants one type')
    return addressType(options.has('src-type') ? 'src-type' : 'dst-type').match(
      options,
      module,
    )
  },
}

const statistic: Module = {
  takes: { mode: 1, probability: 1 },
  match: options => {
    const { value: mode } = needed(options, 'mode')
    if (mode !== 'random') throw new Error(`unknown mode ${mode}`)
    const probability = Number(needed(options, 'probability').value)
    if (!(probability >= 0 && probability <= 1)) throw new Error('not a probability')
    // The kernel keeps 31 bits of it, of which iptables-save prints 11 digits.
    const text = (Math.round(probability * 2 ** 31) / 2 ** 31).toFixed(11)
    return {
      words: ['--mode', 'random', '--probability', text],
      test: () => probability,
    }
  },
}

const recent: Module = {
  takes: { set: 0, rcheck: 0, seconds: 1, reap: 0, name: 1, mask: 1, rsource: 0 },
  match: options => {
    const { value: name } = needed(options, 'name')
    const mask = options.get('mask')?.value
    if (mask !== undefined && !/^(?:255\.){3}255$|^(?:ffff:){7}ffff$/.test(mask))
      throw new Error(`unknown mask ${mask}`)
    if (options.has('set') === options.has('rcheck')) throw new Error('set or rcheck')
    if (options.has('set')) return { words: ['--set', '--name', name], test: () => true }
    const { value: seconds } = needed(options, 'seconds')
    needed(options, 'reap')
    return {
      words: ['--rcheck', '--seconds', seconds, '--reap', '--name', name],
      test: ({ seen }) => seen?.has(name) ?? 'unknown',
    }
  },
}

const ports: Module = {
  takes: { dport: 1 },
  match: (options, module) => {
    const { not = false, value: port } = options.get('dport') ?? {}
    if (not) throw new Error('! --dport')
    if (port !== undefined && !/^\d+$/.test(port)) throw new Error(`not a port: ${port}`)
    return {
      words: port === undefined ? [] : ['--dport', port],
      test: moment =>
        moment.protocol === module &&
        (port === undefined || moment.port === Number(port)),
    }
  },
}

const range = (text: string) => {
  const contains = inRange(text)
  return { text, holds: ({ source }: Moment) => contains(source) }
}

const modules = new Map<string, Module>([
  ['tcp', ports],
  ['udp', ports],
  ['comment', single('comment', text => ({ text, holds: () => true }))],
  ['nfacct', single('nfacct-name', text => ({ text, holds: () => true }))],
  ['conntrack', conntrack],
  ['mark', mark],
  ['addrtype', addrtype],
  ['statistic', statistic],
  ['recent', recent],
  ['iprange', single('src-range', range)],
])

/** What `-m NAME` takes; throws on a name that is not known. */
export const moduleNamed = (name: string): Module => {
  const module = modules.get(name)
  if (module === undefined) throw new Error(`unknown match -m ${name}`)
  return module
}

const addressIn = (read: (moment: Moment) => string, cidr: string) => {
  const text = canonicalCidr(cidr)
  const contains = inCidr(text)
  return { text, holds: (moment: Moment) => contains(read(moment)) }
}

/** Without -m, in the order in which iptables-save prints them. */
export const plainMatches = new Map<
  string,
  (value: string) => { text: string; holds: (moment: Moment) => boolean }
>([
  ['-s', cidr => addressIn(({ source }) => source, cidr)],
  ['-d', cidr => addressIn(({ destination }) => destination, cidr)],
  [
    '-i',
    name => ({
      text: name,
      holds: ({ inInterface }) =>
        name.endsWith('+')
          ? inInterface.startsWith(name.slice(0, -1))
          : inInterface === name,
    }),
  ],
  ['-p', name => ({ text: name, holds: ({ protocol }) => protocol === name })],
])
