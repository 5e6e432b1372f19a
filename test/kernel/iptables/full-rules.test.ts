import t from 'tap'
import { fullRules, type Features } from '../../../src/kernel/iptables/full-rules.ts'
import { fullText } from './full-text.ts'
import { wantedJumps } from '../../../src/kernel/iptables/jumps.ts'
import {
  endpointChainName,
  iptablesOwner,
  serviceChainNames,
} from '../../../src/kernel/iptables/names.ts'
import { explained } from '../../../src/kernel/xtables/try-lines.ts'
import { changesRestore } from '../../../src/kernel/iptables/restore-text.ts'
import { RulesetState } from '../../../src/kernel/iptables/ruleset-state.ts'
import { jumpRepairs } from '../../../src/kernel/xtables/jumps.ts'
import { readTable } from '../../../src/kernel/xtables/saved.ts'
import { textOf } from '../../../src/kernel/xtables/wanted.ts'
import { ToolError } from '../../../src/kernel/run-tool.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { service, settings, snapshotOf } from './world.ts'
import { ifLocal, ifNotLocal } from '../../../src/kernel/xtables/local-pods.ts'

const features: Features = {
  randomFully: true,
  conntrackLiberal: false,
  nfacct: false,
  sctp: true,
}

const bookOf = (servicePorts: readonly ServicePort[]): Promise<RulesetState> =>
  RulesetState.of(snapshotOf(servicePorts), settings, features)

/** What turning from some ServicePorts to others writes. */
const turned = async (
  from: readonly ServicePort[],
  to: readonly ServicePort[],
  other = settings,
): Promise<string> => {
  const book = await bookOf(from)
  return changesRestore(await book.change(snapshotOf(to), other), Infinity)
}

const web = service('web', 1, ['10.1.0.1', '10.1.0.2'])
const db = service('db', 2, ['10.1.0.3'])

t.test('chain names are those of kube-proxy', async t => {
  t.equal(serviceChainNames('ns4/svc4:p80', 'tcp').cluster, 'KUBE-SVC-4SW47YFZTEDKD3PK')
  t.equal(
    serviceChainNames('default/kubernetes:https', 'tcp').external,
    'KUBE-EXT-NPX46M4PTMTKRN6Y',
  )
  t.equal(
    endpointChainName('ns1/svc1:p80', 'tcp', '10.180.0.1:80'),
    'KUBE-SEP-SXIVWICOYRO3J4NJ',
  )
})

t.test('a packet is not local when it comes from none of several blocks', async t => {
  const detector = { by: 'source' as const, cidrs: ['10.0.0.0/8', '172.16.0.0/12'] }
  t.same(ifLocal(detector), ['-s 10.0.0.0/8', '-s 172.16.0.0/12'])
  t.equal(
    ifNotLocal(detector),
    '! -s 10.0.0.0/8 -m iprange ! --src-range 172.16.0.0-172.31.255.255',
  )
  t.equal(
    ifNotLocal({ by: 'source', cidrs: ['fd00::/64', 'fd01::/64'] }),
    '! -s fd00::/64 -m iprange ! --src-range fd01::-fd01::ffff:ffff:ffff:ffff',
  )
})

t.test('a name that would end a line or a comment is harmless', async t => {
  const odd = service('odd', 1, ['10.1.0.1'], { name: 'default/o"d\nd' })
  const { nat } = fullRules(snapshotOf([odd]), settings, features)
  const lines = nat.flatMap(chain => chain.lines)
  t.notOk(lines.some(line => line.includes('\n')))
  t.ok(lines.some(line => line.includes('"default/o_d_d cluster IP"')))
})

/** Three names of 63 characters, and then some. */
const longName = (more = ''): string =>
  `${'n'.repeat(63)}/${'s'.repeat(63)}:${'p'.repeat(63)}${more}`

t.test('the longest names make no comment that is too long', async t => {
  for (const name of [longName(), longName('more'.repeat(99))]) {
    const long = service('long', 1, ['2001:db8:1111:2222:3333:4444:5555:6666'], {
      name,
      family: 'IPv6',
      vips: (['ClusterIP', 'ExternalIP', 'LoadBalancerIP', 'NodePort'] as const).map(
        kind => ({ kind, address: '2001:db8::1', port: 65_535 }),
      ),
      externalTrafficPolicy: 'Local',
      sourceRanges: ['2001:db8::/64'],
    })
    const check = { namespace: 'default', serviceName: 'long', port: 1, localReady: 0 }
    const dropped = { verdict: 'drop' as const, endpoints: [] }
    for (const target of [long.external, dropped]) {
      const each = { ...long, external: target, internal: target }
      const snapshot = { ...snapshotOf([each], [check]), family: 'IPv6' as const }
      const text = fullText(fullRules(snapshot, settings, features))
      const comments = Array.from(
        text.matchAll(/--comment (?:"([^"]*)"|(\S+))/g),
        ([, quoted, bare]) => quoted ?? bare ?? '',
      )
      t.ok(comments.length > 20)
      t.ok(comments.every(({ length }) => length <= 255))
    }
  }
})

t.test('each of 250 endpoints has the same chance', async t => {
  const many = service('many', 3, manyAddresses(250))
  const { nat } = fullRules(snapshotOf([many]), settings, features)
  const { cluster } = serviceChainNames('default/many', 'tcp')
  const lines = nat.find(({ name }) => name === cluster)?.lines ?? []
  let left = 1
  const shares = lines
    .filter(line => line.includes(' -> '))
    .map(line => {
      const share = left * Number(/--probability (\S+)/.exec(line)?.[1] ?? 1)
      left -= share
      return share
    })
  t.equal(shares.length, 250)
  t.ok(shares.every(share => Math.abs(share - 1 / 250) < 1e-7))
})

t.test(
  'an endpoint more rewrites the chain that leads to it, and nothing else',
  async t => {
    const more = service('web', 1, ['10.1.0.1', '10.1.0.2', '10.1.0.9'])
    const text = await turned([web, db], [more, db])
    const { cluster } = serviceChainNames('default/web', 'tcp')
    const added = endpointChainName('default/web', 'tcp', '10.1.0.9:8080')
    t.match(text, /^\*nat\n/)
    const declared = text.split('\n').filter(line => line.startsWith(':'))
    t.same(declared, [`:${cluster} - [0:0]`, `:${added} - [0:0]`])
  },
)

t.test('an endpoint that goes is deleted after what led to it was rewritten', async t => {
  const less = service('web', 1, ['10.1.0.1'])
  const text = await turned([web, db], [less, db])
  const gone = endpointChainName('default/web', 'tcp', '10.1.0.2:8080')
  t.notMatch(text, new RegExp(`-j ${gone}`))
  t.match(text, new RegExp(`:${gone} - \\[0:0\\]\n`))
  t.ok(text.endsWith(`-X ${gone}\nCOMMIT\n`))
})

t.test('the last endpoint that goes leaves a refusal, and no chain', async t => {
  const text = await turned([web], [service('web', 1, [])])
  t.match(text, /-A KUBE-SERVICES -m comment --comment "default\/web has no endpoints"/)
  const { cluster } = serviceChainNames('default/web', 'tcp')
  t.match(text, new RegExp(`-X ${cluster}\n`))
  t.notMatch(text, new RegExp(`-j ${cluster}`))
})

t.test('a ServicePort that is the same object writes nothing', async t => {
  t.equal(await turned([web, db], [web, db]), '')
  t.equal(await turned([web, db], [db, web]), '')
})

t.test('one that is equal writes nothing either', async t => {
  t.equal(await turned([web], [service('web', 1, ['10.1.0.1', '10.1.0.2'])]), '')
})

t.test(
  'addresses of the node change only the chain that leads to node ports',
  async t => {
    const narrow = { ...settings, nodePortCidrs: ['198.51.100.0/24'] }
    const book = await RulesetState.of(snapshotOf([web]), narrow, features)
    const change = (nodeAddresses: readonly string[]) =>
      book.change(snapshotOf([web]), { ...narrow, nodeAddresses })
    t.same(await change(['203.0.113.6']), { filter: [], nat: [], edits: [], gone: [] })
    const { nat } = await change(['203.0.113.6', '198.51.100.9'])
    t.same(
      nat.map(({ name }) => name),
      ['KUBE-SERVICES'],
    )
    t.match(nat[0]?.lines.at(-1), /-d 198\.51\.100\.9 -j KUBE-NODEPORTS$/)
  },
)

t.test('many chains are written in several transactions, last first', async t => {
  const book = await bookOf([])
  const all = service('all', 4, ['10.1.0.4', '10.1.0.5'], {
    vips: [{ kind: 'LoadBalancerIP', address: '192.0.2.4', port: 80 }],
    sourceRanges: ['203.0.113.0/24'],
  })
  const changes = await book.change(snapshotOf([web, db, all]), settings)
  const parts = (await changesRestore(changes, 2)).split('COMMIT\n').slice(0, -1)
  t.equal(parts.length, 1 + 5 + 1)
  const there = new Set(['KUBE-MARK-MASQ', 'KUBE-NODEPORTS'])
  for (const part of parts) {
    for (const [, chain = ''] of part.matchAll(/^:(\S+) /gm)) there.add(chain)
    for (const [, target = ''] of part.matchAll(/ -j (KUBE-\S+)$/gm))
      t.ok(there.has(target), `${target} is there before it is led to`)
  }
  t.match(parts.at(-1), /-A KUBE-SERVICES/)
  const one = await changesRestore(changes, Infinity)
  const lines = (text: string) => text.split('\n').filter(line => /^[:-]/.test(line))
  t.same(lines(parts.join('')).toSorted(), lines(one).toSorted())
})

t.test('other settings are not for a partial sync', async t => {
  const book = await bookOf([web])
  t.ok(book.takes({ ...settings, nodeAddresses: [] }))
  t.ok(book.takes(structuredClone(settings)))
  t.notOk(book.takes({ ...settings, masqueradeAll: true }))
  t.notOk(book.takes({ ...settings, localDetector: { by: 'none' } }))
})

t.test('health checks are let in by one chain, whichever changes', async t => {
  const book = await bookOf([web])
  const check = { namespace: 'default', serviceName: 'web', port: 3999, localReady: 1 }
  const changed = await book.change(snapshotOf([web], [check]), settings)
  t.same(changed.filter, [
    {
      name: 'KUBE-NODEPORTS',
      lines: [
        '-m comment --comment "default/web health check node port" -m tcp -p tcp --dport 3999 -j ACCEPT',
      ],
    },
  ])
  const ready = await book.change(
    snapshotOf([web], [{ ...check, localReady: 2 }]),
    settings,
  )
  t.same(ready, { filter: [], nat: [], edits: [], gone: [] })
})

const manyAddresses = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `10.2.${i >> 8}.${i & 255}`)

t.test('rules of endpoints have no comments beyond 1000 endpoints', async t => {
  const commented = (count: number): boolean => {
    const many = service('many', 3, manyAddresses(count))
    const { nat } = fullRules(snapshotOf([many]), settings, features)
    const lines = nat.filter(({ name }) => /^KUBE-(?:SVC|SEP)/.test(name))
    return lines.some(chain => chain.lines.some(line => /-> |comment default/.test(line)))
  }
  t.ok(commented(1000))
  t.notOk(commented(1001))
})

t.test('what was written with comments is left so when others come', async t => {
  const many = service('many', 3, manyAddresses(1000))
  const text = await turned([web], [web, many])
  const { cluster } = serviceChainNames('default/web', 'tcp')
  t.notMatch(text, new RegExp(`-A ${cluster} `))
  t.notMatch(text, /-> 10\.2\./)
})

t.test('rules are counted as they come and go', async t => {
  const book = await bookOf([])
  t.same(book.total(), { filter: 4, nat: 5 })
  await book.change(snapshotOf([web, db]), settings)
  t.same(book.total(), { filter: 4, nat: 5 + 2 + 3 * 2 + 2 + 3 })
  await book.change(snapshotOf([service('web', 1, []), db]), settings)
  t.same(book.total(), { filter: 5, nat: 5 + 2 + 3 })
  await book.change(snapshotOf([]), settings)
  t.same(book.total(), { filter: 4, nat: 5 })
})

/** What the jumps of filter need when these rules are there. */
const repairs = async (
  localnet: boolean,
  rules: readonly string[],
): Promise<readonly string[]> => {
  const builtIn = ['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `:${chain} ACCEPT [0:0]`)
  const text = ['*filter', ...builtIn, ...rules, 'COMMIT', ''].join('\n')
  const saved = await readTable(text, 'filter', iptablesOwner)
  return jumpRepairs(wantedJumps(localnet).filter, saved, iptablesOwner)
}

t.test('jumps that are there once are left alone', async t => {
  const rules = wantedJumps(true).filter.map(jump => `-A ${textOf(jump)}`)
  t.same(await repairs(true, rules), [])
})

t.test('jumps of the layout of 1.16 go, and those that are twice', async t => {
  const saved = [
    '-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A INPUT -p tcp -m tcp --dport 22 -j KUBE-SERVICES',
    '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
  ]
  const lines = await repairs(false, saved)
  t.same(
    lines.filter(line => line.startsWith('-D')),
    [saved[0], saved[2], saved[3]].map(line => line?.replace('-A', '-D')),
  )
  t.equal(lines.filter(line => /^-I FORWARD .*-j KUBE-FORWARD$/.test(line)).length, 1)
})

t.test('what failed is shown with the lines around it, and no more', async t => {
  const input = Array.from({ length: 20 }, (_, i) => `line ${i + 1} ${'x'.repeat(5000)}`)
  const error = new ToolError(
    'iptables-restore: line 10 failed',
    'failed',
    'iptables-restore: line 10 failed\n',
  )
  const { message } = explained(error, input.join('\n')) as Error
  t.match(message, /^iptables-restore: line 10 failed\n {2}7: line 7 x/)
  t.match(message, /\n> 10: line 10 x/)
  t.match(message, /\n {2}13: line 13 x/)
  t.notMatch(message, /14: line/)
  t.ok(message.length < 3000)
})

t.test('what iptables-nft says in its second line is told', async t => {
  const stderr =
    'iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_DEL failed (Device or resource busy): chain T\n'
  const error = new ToolError(
    'iptables-nft-restore v1.8.9 (nf_tables):',
    'failed',
    stderr,
  )
  const { message } = explained(error, '*nat\n-X T\nCOMMIT\n') as Error
  t.match(
    message,
    /line 2: CHAIN_DEL failed \(Device or resource busy\): chain T\n {2}1: \*nat\n> 2: -X T/,
  )
})
