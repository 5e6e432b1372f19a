import t from 'tap'
import { ConntrackCleaner, type FlowVip } from '../../src/kernel/conntrack.ts'
import { streamTool, type StreamTool, ToolError } from '../../src/kernel/run-tool.ts'
import { systemClock } from '../../src/util/clock.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { until } from '../support/until.ts'
import { makeNetns, type Netns, netnsProblem } from '../support/netns.ts'

const why = await netnsProblem('conntrack', 'nft')
const inNetns = { skip: why !== '' && why }

/** NAT for all that is sent to UDP ports from 5000 on, as captures have it. */
const rules = `
table ip usher-test {
  chain output {
    type nat hook output priority -100;
    udp dport 5000-39999 dnat to 127.7.7.7:9999
  }
}
table ip6 usher-test {
  chain output {
    type nat hook output priority -100;
    udp dport 5000-39999 dnat to [::1]:9999
  }
}
`
const proxyAddresses = { IPv4: '127.7.7.7', IPv6: '::1' }

const inside =
  ({ name }: Netns): StreamTool =>
  (command, args, line, options) =>
    streamTool('ip', ['netns', 'exec', name, command, ...args], line, options)

const prepare = async (label: string) => {
  const netns = await makeNetns(label)
  await netns.run('nft', ['-f', '-'], { input: rules })
  const calls: string[] = []
  const stream: StreamTool = (command, args, line, options) => {
    calls.push(args.join(' '))
    return inside(netns)(command, args, line, options)
  }
  const problems: string[] = []
  const cleaner = new ConntrackCleaner({
    clock: systemClock,
    stream,
    proxyAddress: family => proxyAddresses[family],
    ownAddresses: () => ['192.0.2.7'],
    nodePortCidrs: () => undefined,
    failed: problem => problems.push(problem),
  })
  return { netns, calls, problems, cleaner }
}

/** A datagram from a socket of its own to each of them. */
const send = (netns: Netns, to: readonly (readonly [address: string, port: number])[]) =>
  netns.run('bash', ['-s'], {
    input: to.map(([host, port]) => `echo x >/dev/udp/${host}/${port}\n`).join(''),
  })

/** Where the flows that the kernel knows were sent to, sorted. */
const flows = async (netns: Netns): Promise<string[]> => {
  const found: string[] = []
  for (const family of ['ipv4', 'ipv6']) {
    const text = await netns.run('conntrack', ['-L', '-p', 'udp', '-f', family])
    for (const line of text.split('\n')) {
      const match = /dst=(\S+) sport=\d+ dport=(\d+)/.exec(line)
      if (match !== null) found.push(`${match[1]} ${match[2]}`)
    }
  }
  return found.toSorted()
}

const vip = (address: string | undefined, port: number): FlowVip => ({
  family: address?.includes(':') === true ? 'IPv6' : 'IPv4',
  protocol: 'UDP',
  address,
  port,
  onlyRelayed: true,
})

t.test('flows to the named VIPs are forgotten, all others stay', inNetns, async t => {
  const { netns, cleaner, problems } = await prepare('ctone')
  await send(netns, [
    ['127.0.0.5', 5300],
    ['127.0.0.5', 5300],
    ['127.0.0.5', 5301],
    ['127.0.0.6', 5300],
    ['127.0.0.8', 30053],
    ['127.0.0.9', 30053],
    ['127.0.0.9', 53],
    ['::1', 5300],
    ['::1', 5301],
    ['::1', 30053],
  ])
  t.equal((await flows(netns)).length, 10)
  const named = [vip('127.0.0.5', 5300), vip(undefined, 30053), vip('::1', 5300)]
  t.equal(await cleaner.forgetFlows(named), 5)
  t.same(await flows(netns), [
    '127.0.0.5 5301',
    '127.0.0.6 5300',
    '127.0.0.9 53',
    '::1 30053',
    '::1 5301',
  ])
  t.equal(await cleaner.forgetFlows(named), 0, 'nothing there is no error')
  t.equal(await cleaner.forgetFlows([]), 0)
  t.same(problems, [])
})

const rowOf = (net: string, count: number, port: number, step = 1) =>
  Array.from({ length: count }, (_, i) => {
    const n = i * step
    return [`${net}.${n >> 8}.${n & 255}`, port] as const
  })

t.test('2000 VIPs are forgotten in a few calls', inNetns, async t => {
  const { netns, cleaner, calls, problems } = await prepare('ctmany')
  const named = rowOf('127.10', 2000, 5353)
  const others = [...rowOf('127.10', 300, 5354), ...rowOf('127.11', 300, 5353)]
  await send(netns, [...named, ...others])
  t.equal((await flows(netns)).length, 2600)
  const vips = [...named.map(one => vip(...one)), vip('127.12.0.1', 53)]
  t.equal(await cleaner.forgetFlows(vips), 2000)
  const left = others.map(one => one.join(' ')).toSorted()
  t.same(await flows(netns), left)
  t.ok(calls.length <= 5, calls.join('; '))
  t.same(problems, [])
})

t.test('VIPs too many to tell apart cost all flows to Usher', inNetns, async t => {
  const { netns, cleaner, calls, problems } = await prepare('ctmix')
  const named = rowOf('127.10', 1500, 5353, 2)
  const between = rowOf('127.10', 3000, 5353).filter((_, i) => i % 2 === 1)
  // Nobody's rule changes where these go: they stay.
  const foreign = rowOf('127.11', 20, 4000)
  await send(netns, [...named, ...between, ...foreign])
  t.equal(await cleaner.forgetFlows(named.map(one => vip(...one))), 3000)
  t.same(await flows(netns), foreign.map(one => one.join(' ')).toSorted())
  t.ok(calls.length <= 6, calls.join('; '))
  t.same(problems, [])
})

t.test(
  'entries that go while the tool is at it keep none of the others',
  inNetns,
  async t => {
    const { netns, cleaner, problems } = await prepare('ctgone')
    const named = rowOf('127.10', 40, 5353)
    await send(netns, Array.from({ length: 75 }, () => named).flat())
    // Some have the source port of another.
    const { length } = await flows(netns)
    t.ok(length > 2500)
    const vips = named.map(one => vip(...one))
    // Each takes out what the others have just read.
    const others = [1, 2].map(
      () =>
        new ConntrackCleaner({
          clock: systemClock,
          stream: inside(netns),
          proxyAddress: family => proxyAddresses[family],
          ownAddresses: () => [],
          nodePortCidrs: () => undefined,
          failed: problem => problems.push(problem),
        }),
    )
    const removed = await Promise.all(
      [cleaner, ...others].map(one => one.forgetFlows(vips)),
    )
    t.same(problems, [])
    t.same(await flows(netns), [])
    t.equal(
      removed.reduce((sum, count) => sum + count, 0),
      length,
    )
  },
)

/** A conntrack of the test's own; `answer` throws what it would have failed with. */
const fake = (answer: (args: readonly string[]) => readonly string[]) => {
  const calls: string[] = []
  const problems: string[] = []
  const clock = new FakeClock()
  const cleaner = new ConntrackCleaner({
    clock,
    stream: async (_command, args, line, options) => {
      const { input = '' } = options ?? {}
      calls.push(args.join(' ') + (input === '' ? '' : ` < ${input.trim()}`))
      for (const one of answer(args)) line(one)
    },
    proxyAddress: () => '169.254.77.88',
    ownAddresses: () => [],
    nodePortCidrs: () => undefined,
    failed: problem => problems.push(problem),
  })
  return { cleaner, calls, clock, problems }
}

const noOption = new ToolError(
  'conntrack: no',
  'failed',
  "conntrack: unrecognized option '--load-file'",
)
const none = new ToolError(
  'conntrack: none',
  'failed',
  'conntrack v1.4.6 (conntrack-tools): 0 flow entries have been deleted.',
)

t.test('an old tool is called for each, and nothing there is no error', async t => {
  const { cleaner, calls, problems } = fake(args => {
    if (args[0] === '-c') throw noOption
    if (args.includes('10.96.0.2')) throw none
    if (args[0] === '--dump')
      return args.includes('ipv6')
        ? [flow('fd00::1')]
        : [flow('10.96.0.1'), flow('10.96.0.2')]
    if (args[0] !== '-D') return []
    return ['udp ... deleted']
  })
  const flow = (to: string): string =>
    `udp 17 src=c dst=${to} sport=9 dport=53 src=169.254.77.88 dst=c sport=53 dport=9`
  const vips = [vip('10.96.0.1', 53), vip('10.96.0.2', 53), vip('fd00::1', 53)]
  t.equal(await cleaner.forgetFlows(vips), 2)
  t.same(calls, [
    '--version',
    '-c cat | conntrack --load-file -',
    '--dump -p udp -f ipv4',
    '-D -p udp -f ipv4 -d 10.96.0.1 --dport 53 -r 169.254.77.88 --reply-port-src 53',
    '-D -p udp -f ipv4 -d 10.96.0.2 --dport 53 -r 169.254.77.88 --reply-port-src 53',
    '--dump -p udp -f ipv6',
    '-D -p udp -f ipv6 -d fd00::1 --dport 53 -r 169.254.77.88 --reply-port-src 53',
  ])
  await cleaner.forgetFlows(vips)
  t.equal(calls.length, 12, 'it is asked once whether it can more')
  t.same(problems, [])
})

const entry = (to: string): string =>
  `udp 17 9 src=c dst=${to} sport=9 dport=53 src=169.254.77.88 dst=c sport=53 dport=9`

t.test('what could not be removed is tried again', async t => {
  const broken = new ToolError('conntrack: no', 'failed', 'Operation failed: busy')
  let isBroken = true
  const { cleaner, calls, clock, problems } = fake(args => {
    if (isBroken && args[0] === '--dump') throw broken
    return args[0] === '--dump' && args.includes('ipv4') ? [entry('10.96.0.1')] : []
  })
  t.equal(await cleaner.forgetFlows([vip('10.96.0.1', 53)]), 0)
  await cleaner.forgetFlows([vip('10.96.0.2', 53)])
  t.same(problems, [broken.message], 'and told once')
  isBroken = false
  clock.advance(2000)
  await until('it works again', () => problems.length === 2)
  t.match(calls.at(-1), /-D -p udp -f ipv4 -d 10\.96\.0\.1 --dport 53/)
  t.same(problems, [broken.message, ''])
  const { length } = calls
  clock.advance(600_000)
  await cleaner.forgetFlows([])
  t.equal(calls.length, length, 'and that was all')
})

t.test('who waits for an answer goes before VIPs that are gone', async t => {
  const gone = Array.from({ length: 30 }, (_, i) => vip(`10.96.1.${i}`, 53))
  let dumps = 0
  let late: Promise<number> | undefined
  const { cleaner, calls, clock, problems } = fake(args => {
    if (args[0] === '--dump') {
      dumps += 1
      // What a walk over the kernel's table costs: ten of them a call.
      clock.advance(30)
      return dumps === 1
        ? gone.map(({ address = '' }) => entry(address))
        : [
            entry('10.96.0.1'),
            ...gone.slice(10).map(({ address = '' }) => entry(address)),
          ]
    }
    late ??=
      args.includes('-c') && calls.length > 3 ? cleaner.forgetFlows([served]) : late
    return []
  })
  const served = { ...vip('10.96.0.1', 53), to: [{ address: '10.0.0.1', port: 53 }] }
  await cleaner.forgetFlows(gone)
  await late
  const removals = calls.filter(call => call.includes('-D ')).map(linesIn)
  t.match(removals, [{ length: 10 }, { length: 1 }, { length: 10 }, { length: 10 }])
  t.match(removals[1], [/-d 10\.96\.0\.1 /])
  t.same(problems, [])
})

const linesIn = (call: string): string[] => call.slice(call.indexOf('<') + 2).split('\n')

t.test('an old tool is called a bounded number of times', async t => {
  const row = rowOf('10.96', 500, 53, 2).map(one => vip(...one))
  const between = rowOf('10.96', 1000, 53)
  let dumps = 0
  const { cleaner, calls, clock, problems } = fake(args => {
    if (args[0] === '-c') throw noOption
    if (args[0] !== '--dump') return []
    dumps += 1
    return between.map(
      ([dst, port]) =>
        `udp 17 9 src=1.1.1.1 dst=${dst} sport=9 dport=${port} src=169.254.77.88 dst=1.1.1.1 sport=53 dport=9`,
    )
  })
  await cleaner.forgetFlows(row)
  t.equal(dumps, 2)
  t.match(calls[3], /-r 169\.254\.77\.88$/)
  t.equal(calls.length, 2 + 2 + 1 + 32)
  t.match(problems, [/more VIPs than can be removed at once/])
  clock.advance(2000)
  await until('the others are tried again', () => calls.length === 37 + 2 + 1 + 32)
  t.equal(problems.length, 1, 'for as long as there are any')
})

t.test('what fails for one family costs the other nothing', async t => {
  const broken = new ToolError('conntrack: no', 'failed', 'Operation failed: busy')
  const { cleaner, calls, problems } = fake(args => {
    if (args[0] !== '--dump') return []
    if (args.includes('ipv6')) throw broken
    return [entry('10.96.0.1')]
  })
  const served = { ...vip('fd00::1', 53), to: [{ address: 'fd01::1', port: 53 }] }
  await cleaner.forgetFlows([served, vip('10.96.0.1', 53)])
  t.match(calls.at(-1), /-D -p udp -f ipv4 -d 10\.96\.0\.1 --dport 53/)
  t.same(problems, [broken.message])
})

t.test('a tool that is missing is told once, and when it is back', async t => {
  let missing = true
  const gone = new ToolError('conntrack: not found; install it', 'missing', '')
  const { cleaner, problems } = fake(() => {
    if (missing) throw gone
    return []
  })
  t.equal(await cleaner.forgetFlows([vip('10.96.0.1', 53)]), 0)
  t.equal(await cleaner.forgetFlows([vip('10.96.0.1', 53)]), 0)
  t.same(problems, [gone.message])
  missing = false
  await cleaner.forgetFlows([vip('10.96.0.1', 53)])
  t.same(problems, [gone.message, ''])
})
