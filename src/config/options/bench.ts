import { type AddressPort, canonicalIp, splitHostPort } from '../../util/ip.ts'
import { group } from '../row.ts'
import {
  anyText,
  badValue,
  list,
  onOff,
  type OptionType,
  plain,
  text,
  textual,
} from '../types/basic.ts'
import { integer, number } from '../types/quantities.ts'

/** An address to measure that the bench did not start. */
export interface GivenTarget extends AddressPort {
  readonly name: string
  readonly protocol: 'TCP' | 'UDP'
}

const seconds = plain('SECONDS', given => {
  const parsed = number.parse(given)
  if (parsed !== 0 && (parsed < 0.1 || parsed > 600))
    throw badValue(given, 'is not a number of seconds from 0.1 to 600', 'give one like 2')
  return parsed
})

type Names = readonly (readonly string[])[]

const names: OptionType<Names, Names> = {
  ...plain('NAME,...', given => {
    const parts = given.split(',').map(part => part.trim())
    if (parts.includes(''))
      throw badValue(given, 'has an empty name', 'give one like usher')
    return [parts]
  }),
  join: lists => lists.flat(),
}

/** Where an HTTP server answers. */
const address: OptionType<AddressPort, string> = textual('IP:PORT', given => {
  const { host = '', port = 0 } = splitHostPort(given) ?? {}
  const ip = canonicalIp(host)
  if (ip === undefined)
    throw badValue(
      given,
      'is not an IP address with a port',
      'give one like 10.96.0.10:80',
    )
  return { address: ip, port }
})

const target: OptionType<GivenTarget, string> = textual('NAME=IP:PORT', given => {
  const [, name, udp, where] = /^([\w.-]+)=(udp:\/\/)?(.+)$/.exec(given) ?? []
  if (name === undefined || where === undefined)
    throw badValue(
      given,
      'is not a name with an address',
      'give one like kube-proxy=10.96.0.10:80',
    )
  return { name, protocol: udp ? 'UDP' : 'TCP', ...address.read(where) }
})

/** What `usher bench` measures, how, and where the results go. */
export const bench = {
  ...group('What', ['bench'], {
    quick: {
      type: onOff,
      help: 'Only the most informative scenarios, in short measurements: under three minutes in total.',
    },
    only: {
      type: names,
      defaultText: 'all',
      help: 'Scenarios, or groups of scenarios, to measure; --list names them. Separate several with commas, or repeat the flag.',
    },
    targets: {
      type: names,
      defaultText: 'all that are available',
      help: 'Targets to measure; --list names them. Ratios need `direct`, `pipe` or the peers among them.',
    },
    target: {
      type: list(target),
      help: "An additional address to measure, such as the ClusterIP of a running kube-proxy; an HTTP server must answer there. Use NAME=udp://IP:PORT for a UDP echo server. Measures without namespaces, because the address belongs to this host's network.",
    },
    backend: {
      type: list(address),
      help: "HTTP servers to use instead of the bench's own, so that a --target in front of the same servers can be compared. Measures only requests, connections and latency.",
    },
    baseline: {
      type: anyText('COMMAND'),
      help: 'Another build of Usher to measure alongside, as `baseline`: the words before `run`, such as "node /opt/usher/dist/usher.js".',
    },
    list: {
      type: onOff,
      help: 'Only list the scenarios and targets, with what is missing for those that cannot be measured here.',
    },
  }),
  ...group('Measurement', ['bench'], {
    rounds: {
      type: integer(0, 1000),
      default: '0',
      defaultText: '5, with --quick 3',
      help: 'How often each target is measured in each scenario. Targets take turns; results are medians.',
    },
    seconds: {
      type: seconds,
      default: '0',
      defaultText: '2, with --quick 1',
      help: 'Length of each measurement. wrk accepts only whole seconds.',
    },
    loopback: {
      type: onOff,
      help: 'Run everything on 127.0.0.1 instead of in network namespaces. Needs no privileges; cannot measure captures.',
    },
    pin: {
      type: onOff,
      help: 'Pin client and backends to CPU 0 and the proxy to CPU 1 (taskset).',
    },
    'install-peers': {
      type: onOff,
      help: 'First install haproxy, nginx and wrk with apt-get, as root, without starting them as services. They stay installed.',
    },
  }),
  ...group('Results', ['bench'], {
    output: {
      type: text('DIR'),
      default: 'results',
      help: 'Directory for the figures (JSON) and the report (HTML).',
    },
    markdown: {
      type: anyText('FILE'),
      help: 'Also write a Markdown page, with its images and figures in a folder of the same name next to it.',
    },
    from: {
      type: anyText('FILE'),
      help: 'Measure nothing: build the reports from the figures (JSON) of an earlier run; the HTML is written next to them.',
    },
  }),
} as const
