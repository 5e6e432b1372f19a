import type { RunTool } from '../../../../src/kernel/run-tool.ts'

/** Which tool of iptables; each sees only its own rules. */
export type IptablesBackEnd = 'nft' | 'legacy'

const table = `
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

const commands = { IPv4: 'iptables', IPv6: 'ip6tables' } as const

/** Rules of somebody else, which nobody may touch, of both tools. */
export const addForeignRules = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
): Promise<void> => {
  await run('nft', ['-f', '-'], { input: table })
  for (const command of Object.values(commands))
    await run(`${command}-${backEnd}-restore`, ['--noflush'], { input: chains })
}

/**
 * All that the node's kernel was told: rules without their counters, addresses, routes,
 * policy routing. The same text means the same state.
 */
export const systemText = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
): Promise<string> => {
  const texts = await Promise.all([
    run('nft', ['--stateless', 'list', 'ruleset']),
    ...Object.values(commands).map(command => run(`${command}-${backEnd}-save`, [])),
    run('ip', ['-o', 'address']),
    run('ip', ['-o', 'link']),
    ...['-4', '-6'].flatMap(family => [
      run('ip', [family, 'route', 'show', 'table', 'all']),
      run('ip', [family, 'rule']),
    ]),
  ])
  return texts.map(plain).join('\n')
}

/** Without what changes by itself: the time, and figures of packets. */
const plain = (text: string): string =>
  text
    .replaceAll(/^# .*\n/gm, '')
    .replaceAll(/\[\d+:\d+\]/g, '')
    .replaceAll(/ packets \d+ bytes \d+/g, '')

/** The part of it that is theirs. */
export const foreignText = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
): Promise<string> => {
  const texts = await Promise.all([
    run('nft', ['--stateless', 'list', 'table', 'inet', 'somebody']),
    ...Object.values(commands).flatMap(command =>
      ['mangle', 'nat', 'filter'].map(async name => {
        const saved = await run(`${command}-${backEnd}-save`, ['-t', name])
        return saved
          .split('\n')
          .filter(line => /SOMEBODY|444\d/.test(line))
          .join('\n')
      }),
    ),
  ])
  return texts.map(plain).join('\n')
}
