import t from 'tap'
import { canonicalText, noRules, restore } from './rule-set.ts'
import { type Packet, shares, told, trace } from './trace.ts'

/** The tracer itself: what it must be able to tell, and to refuse. */

const packet = (over: Partial<Packet> = {}): Packet => ({
  inInterface: 'eth0',
  source: '198.51.100.7',
  destination: '192.0.2.1',
  protocol: 'tcp',
  port: 80,
  nodeAddresses: ['192.168.0.2'],
  ...over,
})

const through = (table: string, lines: string, over: Partial<Packet> = {}): string =>
  told(trace(restore(`*${table}\n${lines}\nCOMMIT\n`), packet(over)))

t.test('a packet that no rule means goes its way', async t => {
  t.equal(told(trace(noRules(), packet())), 'untouched')
})

t.test('each match lets through what it should, and nothing else', async t => {
  const cases: readonly (readonly [match: string, yes: object, no: object])[] = [
    ['-s 198.51.100.0/24', {}, { source: '198.51.101.7' }],
    ['! -s 198.51.100.0/24', { source: '10.0.0.1' }, {}],
    ['-d 192.0.2.1', {}, { destination: '192.0.2.2' }],
    ['! -d 192.0.2.1/32', { destination: '192.0.2.2' }, {}],
    ['-i eth0', {}, { inInterface: 'eth01' }],
    ['-i eth+', {}, { inInterface: 'veth0' }],
    ['! -i eth+', { inInterface: 'veth0' }, {}],
    ['-p tcp', {}, { protocol: 'udp' }],
    ['-p tcp -m tcp --dport 80', {}, { port: 81 }],
    ['-p udp -m udp --dport 80', { protocol: 'udp' }, {}],
    ['-m addrtype --src-type LOCAL', { source: '192.168.0.2' }, {}],
    ['-m addrtype ! --src-type LOCAL', {}, { source: '127.0.0.3' }],
    ['-m conntrack --ctstate NEW', {}, { state: 'ESTABLISHED' }],
    [
      '-m conntrack --ctstate INVALID,NEW',
      { state: 'INVALID' },
      { state: 'ESTABLISHED' },
    ],
    ['-m conntrack ! --ctstate RELATED,ESTABLISHED', {}, { state: 'ESTABLISHED' }],
    ['-m mark ! --mark 0x4000/0x4000', {}, { source: '203.0.113.66' }],
    ['-m iprange --src-range 198.51.100.1-198.51.100.7', {}, { source: '198.51.100.8' }],
    ['-m recent --rcheck --seconds 1 --reap --name L', { seen: ['L'] }, { seen: ['M'] }],
    [
      '-m comment --comment "a \\"b\\" -j ACCEPT" -s 198.51.100.7',
      {},
      { source: '10.0.0.1' },
    ],
  ]
  for (const [match, yes, no] of cases) {
    const lines = (rule: string) =>
      `:MARKED - [0:0]\n-A FORWARD -s 203.0.113.66 -j MARK --or-mark 0x4000\n-A FORWARD ${rule} -j DROP`
    t.equal(through('filter', lines(match), yes), 'DROP', match)
    t.equal(through('filter', lines(match), no), 'untouched', `not: ${match}`)
  }
})

t.test('what it does not know is an error, wherever it stands', async t => {
  const unknown = [
    '-A FORWARD -m physdev --physdev-is-in -j DROP',
    '-A FORWARD -m set --match-set KUBE-X dst -j DROP',
    '-A FORWARD -j LOG',
    '-A FORWARD -j TPROXY --on-port 1',
    '-A FORWARD -p tcp -m tcp --sport 80 -j DROP',
    '-A FORWARD -o eth0 -j DROP',
    '-A FORWARD -f -j DROP',
    '-A FORWARD -g OTHER',
    '-A FORWARD -m addrtype --dst-type BROADCAST -j DROP',
    '-A FORWARD -m conntrack --ctstate UNTRACKED -j DROP',
    '-A FORWARD -m statistic --mode nth --every 2 -j DROP',
    '-A FORWARD -m recent --update --seconds 1 --name L -j DROP',
    '-A FORWARD -j REJECT --reject-with tcp-reset',
    '-A FORWARD -j MARK --and-mark 0x1',
    '-A FORWARD -s 10.0.0.1 -s 10.0.0.2 -j DROP',
    '-A FORWARD -j NOWHERE-TO-BE-SEEN',
    '-A NOWHERE -j DROP',
    '-R FORWARD 1 -j DROP',
    '-D FORWARD -j DROP',
    '-A FORWARD -m comment --comment "open -j DROP',
    ':INPUT - [0:0]',
    '-X FORWARD',
  ]
  for (const line of unknown) t.throws(() => through('filter', line), line)
  t.throws(() => restore('*filter\n-A FORWARD -j DROP\n'), { message: /COMMIT/ })
  t.throws(() => restore('*raw\nCOMMIT\n'))
  t.throws(() => restore('-A FORWARD -j DROP\n'))
})

t.test('a target where the kernel would refuse it is an error', async t => {
  t.throws(() => through('filter', '-A FORWARD -j DNAT --to-destination 10.0.0.1:1'))
  t.throws(() => through('nat', '-A POSTROUTING -j DNAT --to-destination 10.0.0.1:1'))
  t.throws(() => through('nat', '-A PREROUTING -j MASQUERADE'))
  t.throws(() => through('nat', '-A PREROUTING -j REJECT'))
})

t.test('rules that it does not follow are an error', async t => {
  t.throws(() => through('mangle', '-A PREROUTING -j MARK --or-mark 0x4000'))
  t.throws(() => through('nat', '-A INPUT -j ACCEPT'))
})

t.test('chains that jump in a circle are an error', async t => {
  t.throws(() => through('filter', ':A-1 - [0:0]\n-A A-1 -j A-1\n-A FORWARD -j A-1'), {
    message: /without end/,
  })
})

t.test(
  'a chain comes back by its end or by RETURN, and the first verdict counts',
  async t => {
    const chain = (rules: string) =>
      `:A-1 - [0:0]\n-A FORWARD -j A-1\n-A FORWARD -j REJECT\n${rules}`
    t.equal(through('filter', chain('-A A-1 -s 10.0.0.1 -j DROP')), 'REJECT')
    t.equal(through('filter', chain('-A A-1 -j RETURN\n-A A-1 -j DROP')), 'REJECT')
    t.equal(through('filter', chain('-A A-1 -j DROP')), 'DROP')
    t.equal(through('filter', chain('-A A-1 -j ACCEPT')), 'untouched')
    t.equal(through('filter', chain('-I A-1 -j DROP\n-I A-1 -j ACCEPT')), 'untouched')
    t.equal(
      through('filter', ':FORWARD DROP [0:0]'),
      'DROP',
      'the policy is the last rule',
    )
  },
)

const nat = [
  '-A PREROUTING -d 192.0.2.1 -p tcp -m tcp --dport 80 -j MARK --or-mark 0x4000',
  '-A PREROUTING -d 192.0.2.1 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:8080',
  '-A OUTPUT -d 192.0.2.1 -p tcp -m tcp -j DNAT --to-destination 10.0.0.2:8080',
  '-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  '-A POSTROUTING -j MARK --xor-mark 0x4000',
  '-A POSTROUTING -m mark --mark 0x4000/0x4000 -j ACCEPT',
  '-A POSTROUTING -j MASQUERADE --random-fully',
].join('\n')

t.test('a translated packet goes to its endpoint, marked ones masqueraded', async t => {
  t.equal(through('nat', nat), '10.0.0.1:8080 (masqueraded)')
  t.equal(through('nat', nat, { port: 81 }), 'untouched')
  t.equal(through('nat', nat, { inInterface: '' }), '10.0.0.2:8080')
  t.equal(through('nat', nat, { state: 'ESTABLISHED' }), 'untouched')
  t.equal(through('nat', nat, { state: 'INVALID' }), 'untouched')
})

t.test('filter sees the new destination, and that there is one', async t => {
  const both = (filter: string) =>
    told(trace(restore(`*nat\n${nat}\nCOMMIT\n*filter\n${filter}\nCOMMIT\n`), packet()))
  t.equal(both('-A FORWARD -d 192.0.2.1 -j DROP'), '10.0.0.1:8080 (masqueraded)')
  t.equal(both('-A FORWARD -d 10.0.0.1 -p tcp -m tcp --dport 8080 -j DROP'), 'DROP')
  t.equal(both('-A FORWARD -m conntrack --ctstate DNAT -j DROP'), 'DROP')
  t.equal(
    both('-A FORWARD -m conntrack ! --ctstate DNAT -j DROP'),
    '10.0.0.1:8080 (masqueraded)',
  )
})

t.test('what is for the node itself passes INPUT, what it sends OUTPUT', async t => {
  const here = { destination: '192.168.0.2' }
  t.equal(through('filter', '-A INPUT -j DROP', here), 'DROP')
  t.equal(through('filter', '-A INPUT -j DROP'), 'untouched')
  t.equal(through('filter', '-A FORWARD -j DROP', here), 'untouched')
  t.equal(through('filter', '-A FORWARD -j DROP', { inInterface: '' }), 'untouched')
  t.equal(through('filter', '-A OUTPUT -j DROP', { inInterface: '' }), 'DROP')
  const self = { ...here, inInterface: '', source: '192.168.0.2' }
  t.equal(through('filter', '-A INPUT -i lo -j DROP', self), 'DROP')
})

t.test('chances are told: where it may go, and how likely', async t => {
  const to = (n: number) => `-j DNAT --to-destination 10.0.0.${n}:80`
  const rules = restore(
    `*nat\n-A PREROUTING -m statistic --mode random --probability 0.25 ${to(1)}\n` +
      `-A PREROUTING -m statistic --mode random --probability 0.5 ${to(2)}\n` +
      `-A PREROUTING ${to(3)}\nCOMMIT\n`,
  )
  const outcomes = trace(rules, packet())
  t.equal(told(outcomes), '10.0.0.1:80 10.0.0.2:80 10.0.0.3:80')
  t.same(shares(outcomes), {
    '10.0.0.1:80': 0.25,
    '10.0.0.2:80': 0.375,
    '10.0.0.3:80': 0.375,
  })
})

t.test('a client that may or may not be remembered goes both ways', async t => {
  const lines =
    '-A PREROUTING -m recent --rcheck --seconds 1 --reap --name L -j DNAT --to-destination 10.0.0.1:80\n' +
    '-A PREROUTING -j DNAT --to-destination 10.0.0.2:80'
  t.equal(through('nat', lines), '10.0.0.1:80 10.0.0.2:80')
  t.equal(through('nat', lines, { seen: ['L'] }), '10.0.0.1:80')
  t.equal(through('nat', lines, { seen: [] }), '10.0.0.2:80')
})

t.test('IPv6 is understood as well', async t => {
  const lines =
    '-A PREROUTING -d 2001:db8:0::1 -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd00::1]:80'
  const over = { source: '2001:db8::7', destination: '2001:DB8::1' }
  t.equal(through('nat', lines, over), '[fd00::1]:80')
  t.equal(through('nat', lines), 'untouched')
})

t.test('one rule has one spelling, however it was written', async t => {
  const spelled = (rule: string) => canonicalText(restore(`*nat\n${rule}\nCOMMIT\n`))
  const same = [
    [
      '-A OUTPUT -m comment --comment a -m tcp -p tcp -d 10.0.0.1 --dport 80 -j ACCEPT',
      '-A OUTPUT -d 10.0.0.1/32 -p tcp -m comment --comment "a" -m tcp --dport 80 -j ACCEPT',
    ],
    [
      '-A OUTPUT -j MARK --or-mark 0x00004000',
      '-A OUTPUT -j MARK --set-xmark 0x4000/0x4000',
    ],
    ['-A OUTPUT -j MARK --xor-mark 0x4000', '-A OUTPUT -j MARK --set-xmark 0x4000/0x0'],
    [
      '-A OUTPUT -m statistic --mode random --probability 0.3333333333 -j ACCEPT',
      '-A OUTPUT -m statistic --mode random --probability 0.33333333349 -j ACCEPT',
    ],
  ] as const
  for (const [fed, saved] of same) t.equal(spelled(fed), spelled(saved))
  t.not(
    spelled('-A OUTPUT -d 10.0.0.1 -j ACCEPT'),
    spelled('-A OUTPUT -d 10.0.0.2 -j ACCEPT'),
  )
  t.not(
    spelled('-A OUTPUT ! -d 10.0.0.1 -j ACCEPT'),
    spelled('-A OUTPUT -d 10.0.0.1 -j ACCEPT'),
  )
})
