import type { RunTool } from '../../../src/kernel/run-tool.ts'

/** Which tool of iptables; each sees only its own rules. */
export type IptablesBackEnd = 'nft' | 'legacy'

const theirTable = `
table inet somebody {
  set theirs { type ipv4_addr; elements = { 192.0.2.251, 192.0.2.252 } }
  chain guard {
    type filter hook forward priority filter + 5; policy accept;
    ip daddr @theirs drop
    tcp dport 4444 counter reject
  }
}`

const chains = `*mangle
:SOMEBODY - [0:0]
-A FORWARD -j SOMEBODY
-A SOMEBODY -p tcp -m tcp --dport 4445 -m comment --comment "theirs" -j ACCEPT
COMMIT
*nat
:SOMEBODY - [0:0]
-A PREROUTING -j SOMEBODY
-A OUTPUT -j SOMEBODY
-A POSTROUTING -p tcp -m tcp --dport 4446 -j MASQUERADE
-A SOMEBODY -p tcp -m tcp --dport 4447 -j DNAT --to-destination :4448
COMMIT
*filter
:SOMEBODY - [0:0]
-A INPUT -j SOMEBODY
-A FORWARD -j SOMEBODY
-A OUTPUT -j SOMEBODY
-A SOMEBODY -p udp -m udp --dport 4449 -j DROP
COMMIT
`

/** A packet filter, which Usher makes a hole in for the questions of load balancers. */
const shut = `*filter
-A INPUT -p tcp -m tcp --dport 31000:31999 -j DROP
COMMIT
`

const commands = { IPv4: 'iptables', IPv6: 'ip6tables' } as const

/** Rules of somebody else, which nobody may touch, of both tools. */
export const addForeignRules = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
  withFilter: boolean,
): Promise<void> => {
  await run('nft', ['-f', '-'], { input: theirTable })
  const input = withFilter ? chains + shut : chains
  for (const command of Object.values(commands))
    await run(`${command}-${backEnd}-restore`, ['--noflush'], { input })
}

/** The same text means the same state, but for counters. */
export interface SystemTexts {
  /** All that the node's kernel was told: rules, addresses, routes, policy routing. */
  readonly all: string
  /** The part of the rules that is somebody else's. */
  readonly theirs: string
  /** Settings that a mode of kube-proxy's may change. */
  readonly sysctls: string
}

const changeable = String.raw`^net\.(ipv4\.(conf\.\w+\.(route_localnet|arp_(ignore|announce))|ip_forward|vs\.)|netfilter\.nf_conntrack_(tcp|udp))`

export const systemTexts = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
): Promise<SystemTexts> => {
  const iptables = Object.values(commands).map(command => `${command}-${backEnd}-save`)
  const [rules, saved, table, sysctls, rest] = await Promise.all([
    run('nft', ['--stateless', 'list', 'ruleset']),
    Promise.all(iptables.map(command => run(command, []))),
    run('nft', ['--stateless', 'list', 'table', 'inet', 'somebody']),
    run('sysctl', ['-a', '--pattern', changeable]),
    Promise.all(
      [
        ['address'],
        ['link'],
        ...['-4', '-6'].flatMap(family => [
          [family, 'route', 'show', 'table', 'all'],
          [family, 'rule'],
        ]),
      ].map(args => run('ip', ['-o', ...args])),
    ),
  ])
  const chainsOfAll = plain(saved.join('\n'))
  const theirChains = chainsOfAll
    .split('\n')
    .filter(line => /SOMEBODY|dport (444\d|31000)\b/.test(line))
  return {
    all: [rules, chainsOfAll, ...rest].join('\n'),
    theirs: [table, ...theirChains].join('\n'),
    sysctls,
  }
}

/** Without what changes by itself: the time, and figures of packets. */
const plain = (text: string): string =>
  text.replaceAll(/^# .*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, '')
