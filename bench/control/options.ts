import { parseArgs } from 'node:util'
import type { RunRecord, TargetRecord } from '../record/record.ts'
import { mostEndpoints } from './cluster.ts'
import { usherName } from './record.ts'
import { chooseSubjects } from './subjects.ts'

const parts = ['services', 'admin', 'rules', 'modes', 'connect-time'] as const

type Part = (typeof parts)[number]

/** Flags that take a whole number: what it is without them, the least and the most. */
const numbers = {
  services: [10_000, 1, 60_000],
  endpoints: [10, 1, 60],
  changes: [100, 1, 10_000],
  seconds: [60, 1, 3600],
  settle: [60, 0, 3600],
  'mode-endpoints': [2, 1, mostEndpoints],
  'mode-changes': [100, 1, 10_000],
  'mode-stream': [60, 0, 3600],
  'mode-min-sync': [1000, 0, 60_000],
} as const

export const helpText = `Measures Usher against an API server with many Services, over loopback, what it costs
to lead traffic for many VIPs to it, how long the kernel modes take over their rules, and
connect-time steering over its tables.

  --services N       Services, and as many EndpointSlices (default 10000)
  --endpoints N      endpoints in each slice, 1 to 60 (default 10)
  --changes N        endpoint changes a second (default 100)
  --seconds S        how long they go on (default 60)
  --settle S         how long it is left alone after the start, before its memory is
                     looked at again (default 60)
  --certificate      a client certificate in place of a token
  --paged            a server that knows no streaming lists
  --only PART        services (the above), admin (what it costs to look at it), rules,
                     modes or connect-time; all without it
  --vips N,...       rules for so many VIPs (default 1000,10000,50000; as root)
  --mode-services N,...
                     kernel modes and connect-time with so many Services
                     (default 1000,10000; as root)
  --mode-endpoints N endpoints of each of them, 1 to ${mostEndpoints} (default 2)
  --mode-changes N   how often the endpoints of one of them change, one after the other
                     (default 100)
  --mode-stream S    for how many seconds endpoints change all the time, --changes of them
                     a second; 0 for not at all (default 60)
  --mode-min-sync MS --min-sync-period then (default 1000, as Usher's)
  --mode-targets WORD,...
                     only those that have one of these in their names, as nftables,
                     'iptables (nft)' or kube-proxy; without it all, kube-proxy's layout
                     of nftables up to 5000 Services
  --output DIR       where figures (JSON) and report (HTML) go (default results)
  --help
`

export type ControlOptions = ReturnType<typeof parseControlOptions>

/** Reads the command line. Throws an Error naming the flag, and what would be right. */
export const parseControlOptions = (argv: readonly string[]) => {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...textFlags,
      certificate: { type: 'boolean', default: false },
      paged: { type: 'boolean', default: false },
      only: { type: 'string', default: 'all' },
      vips: { type: 'string', default: '1000,10000,50000' },
      'mode-services': { type: 'string', default: '1000,10000' },
      'mode-targets': { type: 'string', default: '' },
      output: { type: 'string', default: 'results' },
      help: { type: 'boolean', default: false },
    },
  })
  const number = (name: keyof typeof numbers): number => {
    const [, from, to] = numbers[name]
    const texts: Readonly<Record<string, unknown>> = values
    return wholeNumber(`--${name}`, String(texts[name]), from, to)
  }
  return {
    services: number('services'),
    endpointsPerSlice: number('endpoints'),
    /** Endpoint changes a second, and for how many seconds. */
    changesPerSecond: number('changes'),
    seconds: number('seconds'),
    settle: number('settle'),
    /** How Usher is let in. */
    user: values.certificate ? ('certificate' as const) : ('token' as const),
    streamingLists: !values.paged,
    /** What to measure. */
    only: part(values.only),
    /** How many VIPs there are rules for, one measurement each. */
    vips: wholeNumbers('--vips', values.vips),
    /** How many Services the kernel modes are given, one measurement each. */
    modeServices: wholeNumbers('--mode-services', values['mode-services']),
    modeEndpoints: number('mode-endpoints'),
    /** How often the endpoints of one of them change. */
    modeChanges: number('mode-changes'),
    modeStream: number('mode-stream'),
    modeMinSync: number('mode-min-sync'),
    modeTargets: words(values['mode-targets']),
    output: folder(values.output),
    help: values.help,
  }
}

const textFlags: Record<string, { readonly type: 'string'; readonly default: string }> =
  Object.fromEntries(
    Object.entries(numbers).map(([name, [usual]]) => [
      name,
      { type: 'string', default: String(usual) },
    ]),
  )

const folder = (text: string): string => {
  if (text !== '') return text
  throw new Error('--output: want the name of a folder')
}

/** Each has to mean somebody. */
const words = (text: string): readonly string[] => {
  const all = text === '' ? [] : text.split(',')
  const strange = all.find(word => chooseSubjects('modes', [word]).length === 0)
  if (strange === undefined) return all
  const known = chooseSubjects('modes').map(({ name }) => name)
  throw new Error(`--mode-targets ${strange}: want words of ${known.join(', ')}`)
}

const part = (text: string): Part | 'all' => {
  const found = parts.find(name => name === text)
  if (found !== undefined || text === 'all') return found ?? 'all'
  throw new Error(`--only ${text}: want ${parts.join(' or ')}`)
}

const wholeNumbers = (flag: string, text: string): readonly number[] =>
  text.split(',').map(n => wholeNumber(flag, n, 1, 60_000))

const wholeNumber = (flag: string, text: string, from: number, to: number): number => {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (number >= from && number <= to) return number
  throw new Error(`${flag} ${text}: want a whole number from ${from} to ${to}`)
}

/** Whether a part is to be measured. */
export const wants = ({ only }: Pick<ControlOptions, 'only'>, wanted: Part): boolean =>
  only === 'all' || only === wanted

/** Who is measured: Usher as a process, each way of leading traffic to it, each mode. */
export const controlTargets = (options: ControlOptions): readonly TargetRecord[] => {
  const { modeServices, modeTargets } = options
  const inBench = (['rules', 'modes', 'connect-time'] as const)
    .filter(wanted => wants(options, wanted))
    .flatMap(wanted =>
      wanted === 'modes'
        ? modeServices.flatMap(many => chooseSubjects(wanted, modeTargets, many))
        : chooseSubjects(wanted),
    )
  const process: TargetRecord = {
    name: usherName,
    title: 'Usher as a process, relay and all, without a capture',
    kind: 'usher',
    command: 'usher run --capture none --drain-timeout=0',
    config: '',
  }
  return [
    ...(wants(options, 'services') || wants(options, 'admin') ? [process] : []),
    ...Array.from(new Set(inBench), ({ name, title, kind }) => ({
      name,
      title,
      kind,
      command: '',
      config: '',
    })),
  ]
}

export const settingOf = (options: ControlOptions): RunRecord['setting'] => {
  const { services, endpointsPerSlice, changesPerSecond, seconds, vips } = options
  const { modeServices, modeEndpoints, modeChanges } = options
  const moved = `${modeServices.join(', ')} Services of ${modeEndpoints} endpoints; ${modeChanges} endpoint changes, one after the other`
  const settings: readonly (readonly [Part, string, string])[] = [
    [
      'services',
      'Services',
      `${services}, as many slices of ${endpointsPerSlice} endpoints`,
    ],
    ['services', 'Lists', options.streamingLists ? 'streamed' : 'in pages'],
    ['services', 'Credentials', options.user],
    [
      'services',
      'Changes',
      `${changesPerSecond} endpoint changes a second for ${seconds} s`,
    ],
    ['services', 'CPUs', 'shared by Usher, the API server and the bench'],
    [
      'rules',
      'Rules',
      `for ${vips.join(', ')} VIPs, each in a network namespace of its own`,
    ],
    [
      'modes',
      'Kernel modes',
      `${moved}; the tools once more in a second network namespace`,
    ],
    [
      'connect-time',
      'Connect time',
      `${moved}; in a cgroup and a network namespace of its own`,
    ],
  ]
  return settings
    .filter(([of]) => wants(options, of))
    .map(([, name, value]) => [name, value])
}
