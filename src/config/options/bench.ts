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
      help: 'The scenarios that say most, in short windows: less than three minutes in all.',
    },
    only: {
      type: names,
      defaultText: 'all',
      help: 'Scenarios, or groups of them, to measure; --list names them. Several with commas, or the flag several times.',
    },
    targets: {
      type: names,
      defaultText: 'all that are here',
      help: 'Targets to measure; --list names them. Ratios need `direct`, `pipe` or the peers among them.',
    },
    target: {
      type: list(target),
      help: "An address to measure beside them, such as the ClusterIP of a kube-proxy that runs: an HTTP server must answer there. NAME=udp://IP:PORT for a UDP echo. Measures without namespaces, as the address is one of this host's network.",
    },
    backend: {
      type: list(address),
      help: "HTTP servers to use in place of the bench's own, so that a --target with the same ones behind it can be compared. Measures requests, connections and latency only.",
    },
    baseline: {
      type: anyText('COMMAND'),
      help: 'Another build of Usher to measure beside this one, as `baseline`: the words before `run`, such as "node /opt/usher/dist/usher.js".',
    },
    list: {
      type: onOff,
      help: 'Only name the scenarios and the targets, and say what is missing for those that can not be measured here.',
    },
  }),
  ...group('How it is measured', ['bench'], {
    rounds: {
      type: integer(0, 1000),
      default: '0',
      defaultText: '5, with --quick 3',
      help: 'How often each target is measured in each scenario. The targets take turns; medians count.',
    },
    seconds: {
      type: seconds,
      default: '0',
      defaultText: '2, with --quick 1',
      help: 'Length of each measurement. wrk knows whole seconds only.',
    },
    loopback: {
      type: onOff,
      help: 'Everything on 127.0.0.1 in place of network namespaces for a client, nodes and backend pods. Needs no privileges; measures no captures.',
    },
    pin: {
      type: onOff,
      help: 'Client and backends on CPU 0, the proxy on CPU 1 (taskset).',
    },
    'install-peers': {
      type: onOff,
      help: 'First install haproxy, nginx and wrk with apt-get, as root, without starting them as services. It stays installed.',
    },
  }),
  ...group('Results', ['bench'], {
    output: {
      type: text('DIR'),
      default: 'results',
      help: 'Where the figures (JSON) and the report (HTML) go.',
    },
    markdown: {
      type: anyText('FILE'),
      help: 'Write a Markdown page too, with its pictures and figures in a folder of its name beside it.',
    },
    from: {
      type: anyText('FILE'),
      help: 'Measure nothing: make the reports from the figures (JSON) of an earlier run; the HTML goes beside them.',
    },
  }),
} as const
