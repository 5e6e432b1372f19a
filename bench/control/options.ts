import { parseArgs } from 'node:util'
import { mostEndpoints } from '../modes/cluster.ts'
import { chooseProxiers, measuredProxiers } from '../modes/proxiers.ts'

export interface ControlOptions {
  readonly services: number
  readonly endpointsPerSlice: number
  /** Endpoint changes a second, and for how many seconds. */
  readonly changesPerSecond: number
  readonly seconds: number
  /** How long it is left alone after the start, in seconds. */
  readonly settle: number
  /** How Usher is let in. */
  readonly user: 'token' | 'certificate'
  readonly streamingLists: boolean
  /** What to measure. */
  readonly only: Part | 'all'
  /** How many VIPs there are rules for, one measurement each. */
  readonly vips: readonly number[]
  /** How many Services the kernel modes are given, one measurement each. */
  readonly modeServices: readonly number[]
  /** Of each of them. */
  readonly modeEndpoints: number
  /** How often the endpoints of one of them change. */
  readonly modeChanges: number
  /** Words of which one is in the name of each that is measured; none for all. */
  readonly modeTargets: readonly string[]
  /** Seconds for which changes come without end, and --min-sync-period then, in milliseconds. */
  readonly modeStream: number
  readonly modeMinSync: number
  /** The folder for figures and report. */
  readonly output: string
  readonly help: boolean
}

const parts = ['services', 'admin', 'rules', 'modes', 'connect-time'] as const

type Part = (typeof parts)[number]

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

/** Whether a part is to be measured. */
export const wants = ({ only }: Pick<ControlOptions, 'only'>, part: Part): boolean =>
  only === 'all' || only === part

/** Reads the command line. Throws an Error naming the flag, and what would be right. */
export const parseControlOptions = (argv: readonly string[]): ControlOptions => {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      services: { type: 'string', default: '10000' },
      endpoints: { type: 'string', default: '10' },
      changes: { type: 'string', default: '100' },
      seconds: { type: 'string', default: '60' },
      settle: { type: 'string', default: '60' },
      certificate: { type: 'boolean', default: false },
      paged: { type: 'boolean', default: false },
      only: { type: 'string', default: 'all' },
      vips: { type: 'string', default: '1000,10000,50000' },
      'mode-services': { type: 'string', default: '1000,10000' },
      'mode-endpoints': { type: 'string', default: '2' },
      'mode-changes': { type: 'string', default: '100' },
      'mode-stream': { type: 'string', default: '60' },
      'mode-min-sync': { type: 'string', default: '1000' },
      'mode-targets': { type: 'string', default: '' },
      output: { type: 'string', default: 'results' },
      help: { type: 'boolean', default: false },
    },
  })
  return {
    services: wholeNumber('--services', values.services, 1, 60_000),
    endpointsPerSlice: wholeNumber('--endpoints', values.endpoints, 1, 60),
    changesPerSecond: wholeNumber('--changes', values.changes, 1, 10_000),
    seconds: wholeNumber('--seconds', values.seconds, 1, 3600),
    settle: wholeNumber('--settle', values.settle, 0, 3600),
    user: values.certificate ? 'certificate' : 'token',
    streamingLists: !values.paged,
    only: part(values.only),
    vips: wholeNumbers('--vips', values.vips, 100_000),
    modeServices: wholeNumbers('--mode-services', values['mode-services'], 60_000),
    modeEndpoints: wholeNumber(
      '--mode-endpoints',
      values['mode-endpoints'],
      1,
      mostEndpoints,
    ),
    modeChanges: wholeNumber('--mode-changes', values['mode-changes'], 1, 10_000),
    modeStream: wholeNumber('--mode-stream', values['mode-stream'], 0, 3600),
    modeMinSync: wholeNumber('--mode-min-sync', values['mode-min-sync'], 0, 60_000),
    modeTargets: words(values['mode-targets']),
    output: folder(values.output),
    help: values.help,
  }
}

const folder = (text: string): string => {
  if (text !== '') return text
  throw new Error('--output: want the name of a folder')
}

/** Each has to mean somebody. */
const words = (text: string): readonly string[] => {
  const all = text === '' ? [] : text.split(',')
  const strange = all.find(word => chooseProxiers([word], 1).length === 0)
  if (strange === undefined) return all
  throw new Error(
    `--mode-targets ${strange}: want words of ${measuredProxiers.join(', ')}`,
  )
}

const part = (text: string): ControlOptions['only'] => {
  const found = parts.find(name => name === text)
  if (found !== undefined || text === 'all') return found ?? 'all'
  throw new Error(`--only ${text}: want ${parts.join(' or ')}`)
}

const wholeNumbers = (flag: string, text: string, to: number): readonly number[] =>
  text.split(',').map(n => wholeNumber(flag, n, 1, to))

const wholeNumber = (flag: string, text: string, from: number, to: number): number => {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (number >= from && number <= to) return number
  throw new Error(`${flag} ${text}: want a whole number from ${from} to ${to}`)
}
