import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { lineErrors } from '../../../src/kernel/host-addresses/ip-tool.ts'
import {
  LinuxHostAddresses,
  type LinuxHostAddressesDeps,
} from '../../../src/kernel/host-addresses/linux.ts'
import { spawnMonitor } from '../../../src/kernel/nft/monitor.ts'
import type { HostAddresses } from '../../../src/kernel/host-addresses/host-addresses.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeNetns, netnsProblem } from '../../support/netns.ts'
import { until } from '../../support/until.ts'

const why = await netnsProblem()
const needsNetns = { skip: why !== '' && why }

/** Addresses of a namespace, and the calls of `ip` that were made. */
const fixture = async (over: Partial<LinuxHostAddressesDeps> = {}) => {
  const netns = await makeNetns('ha')
  const clock = new FakeClock()
  const calls: string[] = []
  const run: RunTool = (command, args, options) => {
    calls.push([command, ...args].join(' '))
    return netns.run(command, args, options)
  }
  const make = (): HostAddresses => new LinuxHostAddresses({ run, clock, ...over })
  const ip = (...args: string[]) => netns.run('ip', args)
  /** Whether a UDP socket of the namespace can be bound to each. */
  const binds = async (...addresses: string[]): Promise<boolean[]> => {
    const program = `for (const address of process.argv.slice(1)) {
      const socket = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
      socket.on('error', () => { console.log(address, false); socket.close() })
      socket.bind(0, address, () => { console.log(address, true); socket.close() })
    }`
    const text = await netns.run(process.execPath, ['-e', program, ...addresses])
    const said = new Map(
      text.split('\n').map(line => line.split(' ') as [string, string]),
    )
    return addresses.map(address => said.get(address) === 'true')
  }
  const everything = async (): Promise<string> =>
    [
      await ip('-4', 'route', 'show', 'table', 'all'),
      await ip('-6', 'route', 'show', 'table', 'all'),
      await ip('addr', 'show'),
    ].join('\n')
  return { netns, clock, calls, make, host: make(), ip, binds, everything }
}

const none = new Map<string, string>()

t.test('addresses of a host', needsNetns, async t => {
  const { host, make, calls, binds, everything, ip, clock } = await fixture()
  const before = await everything()
  const wanted = ['10.96.0.0/12', '192.0.2.7/32', 'fd00::7/128']
  const test = ['10.97.3.4', '192.0.2.7', 'fd00::7']

  t.test('become its own: a range, and single ones of both families', async t => {
    t.strictSame(await binds(...test), [false, false, false])
    t.strictSame(await host.sync(wanted), none)
    t.strictSame(await binds(...test), [true, true, true])
    t.strictSame(await binds('10.112.0.1', '192.0.2.8', 'fd00::8'), [false, false, false])
  })

  t.test('no command is run when nothing has changed', async t => {
    calls.length = 0
    t.strictSame(await host.sync(wanted.toReversed()), none)
    t.strictSame(calls, [])
  })

  t.test(
    'a change is a look at the routes, one command for those that come, one for the gone',
    async t => {
      const other = ['10.96.0.0/12', '192.0.2.8/32', '192.0.2.9/32', 'fd00::7/128']
      await host.sync(other)
      const batch = 'ip -force -batch -'
      t.strictSame(calls, ['ip -4 route show table all', batch, batch])
      t.strictSame(await binds('192.0.2.7', '192.0.2.8', '192.0.2.9'), [
        false,
        true,
        true,
      ])
      await host.sync(wanted)
    },
  )

  t.test('those of an earlier process are kept where they are wanted', async t => {
    calls.length = 0
    const later = make()
    t.strictSame(await later.sync(wanted.slice(1)), none)
    t.equal(calls.filter(one => one.includes('-batch')).length, 1, 'the range goes')
    t.strictSame(await binds(...test), [false, true, true])
    await host.sync([])
    await host.sync(wanted)
  })

  t.test('those that somebody takes away are missed, and put back', async t => {
    const told: string[] = []
    const end = host.watch(what => told.push(what))
    await ip('route', 'del', 'local', '10.96.0.0/12', 'dev', 'lo')
    await ip('addr', 'del', 'fd00::7/128', 'dev', 'lo')
    clock.advance(4000)
    await until('it is missed', () => told.length > 0)
    t.strictSame(told, ['taken away: 10.96.0.0/12, fd00::7/128'])
    t.strictSame(await host.sync(wanted), none)
    t.strictSame(await binds(...test), [true, true, true])
    await until('it looks again', () => clock.waiting > 0)
    clock.advance(4000)
    await host.sync(wanted)
    t.equal(told.length, 1, 'nothing more is missing')
    end()
    t.equal(clock.waiting, 0)
  })

  t.test('all go with `remove`, also of a process that knows of none', async t => {
    await make().remove()
    t.equal(await everything(), before)
    await t.resolves(make().remove(), 'also when there is nothing')
  })
})

t.test('what others have', needsNetns, async t => {
  const { host, calls, ip, binds, everything } = await fixture()
  await ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1')
  // Link-local addresses of the kernel's own would come at a time of its choice.
  for (const end of ['v0', 'v1'])
    await ip('link', 'set', end, 'addrgenmode', 'none', 'up')
  await ip('addr', 'add', '192.0.2.1/24', 'dev', 'v0')
  await ip('addr', 'add', '2001:db8::1/64', 'dev', 'v0', 'nodad')
  await ip('addr', 'add', '2001:db8::9/128', 'dev', 'lo', 'nodad', 'preferred_lft', '0')
  await ip('route', 'add', 'local', '198.51.100.0/24', 'dev', 'lo')
  await ip('route', 'add', '203.0.113.0/25', 'dev', 'v0', 'proto', '117')
  const foreign = await everything()
  const theirs = ['192.0.2.1/32', '2001:db8::1/128', '2001:db8::9/128', '198.51.100.0/24']

  t.test('is had without a change, and stays', async t => {
    t.strictSame(await host.sync([...theirs, '192.0.2.7/32', '2001:db8::7/128']), none)
    t.strictSame(await binds('192.0.2.7', '2001:db8::7'), [true, true])
    t.notMatch(await ip('addr', 'show', 'dev', 'lo'), '2001:db8::1/')
    calls.length = 0
    await host.sync([...theirs, '192.0.2.7/32', '2001:db8::7/128'])
    t.strictSame(calls, [])
    await host.sync([])
    t.equal(await everything(), foreign)
    await host.sync(theirs)
    await host.remove()
    t.equal(await everything(), foreign)
  })

  t.test("is made Usher's own after they gave it back", async t => {
    await host.sync(['192.0.2.1/32'])
    await ip('addr', 'del', '192.0.2.1/24', 'dev', 'v0')
    t.strictSame(await host.missing(), ['192.0.2.1/32'])
    await host.sync(['192.0.2.1/32'])
    t.strictSame(await binds('192.0.2.1'), [true])
    await host.sync([])
    await ip('addr', 'add', '192.0.2.1/24', 'dev', 'v0')
  })

  t.test('a range that would swallow one of their networks is not had', async t => {
    const errors = await host.sync(['192.0.0.0/16', '192.0.2.255/32', '192.0.2.7/32'])
    t.match(
      errors.get('192.0.0.0/16'),
      /holds a network .* route to: 192\.0\.2\.0\/24 dev v0/,
    )
    t.equal(errors.get('192.0.2.255/32'), 'this host has a broadcast route for it')
    t.equal(errors.size, 2)
    t.strictSame(await binds('192.0.2.7', '192.0.3.1'), [true, false])
    t.match(
      [...(await host.sync(['192.0.2.0/24'])).values()],
      [/route to: 192\.0\.2\.0\/24/],
    )
    await ip('route', 'add', 'blackhole', '198.18.0.0/15')
    t.strictSame(
      await host.sync(['198.18.0.0/15']),
      none,
      'in the place of one that drops',
    )
    await ip('route', 'del', 'blackhole', '198.18.0.0/15')
    await host.sync([])
  })

  t.test('a gateway is not had, be it asked for alone or in a range', async t => {
    await ip('route', 'add', 'default', 'via', '192.0.2.254')
    await ip('-6', 'route', 'add', 'default', 'via', '2001:db8::fe', 'dev', 'v0')
    // Which counts for some packets (ip-rule(8)), as of a second uplink.
    await ip('route', 'add', 'default', 'via', '192.0.2.253', 'table', '100')
    const wanted = [
      '192.0.2.254/32',
      '192.0.2.253/32',
      '192.0.2.240/28',
      '192.0.2.7/32',
      '2001:db8::fe/128',
    ]
    const errors = await host.sync(wanted)
    t.strictSame(
      [...errors.keys()].toSorted(),
      wanted.filter(one => !one.includes('.7/')).toSorted(),
    )
    t.match([...errors.values()][0], /192\.0\.2\.254 is a gateway/)
    t.strictSame(await binds('192.0.2.254', '192.0.2.7'), [false, true])
    await host.sync([])
    await ip('route', 'del', 'default')
    await ip('route', 'del', 'default', 'table', '100')
    await ip('-6', 'route', 'del', 'default')
  })
})

t.test('IPv6 ranges', needsNetns, async t => {
  const { host, make, netns, binds, everything } = await fixture()
  const before = await everything()
  const range = 'fd00:1::/112'

  t.test('can not be had as a whole', async t => {
    const errors = await host.sync([range, 'fd00:2::1/128'])
    t.match([...errors], [[range, /one by one/]])
    t.strictSame(await binds('fd00:2::1'), [true])
  })

  t.test('are routes where sockets may have any address', async t => {
    await netns.run('sysctl', ['-qw', 'net.ipv6.ip_nonlocal_bind=1'])
    const routes = make()
    t.strictSame(await routes.sync([range, 'fd00:2::1/128']), none)
    const text = await netns.run('ip', ['-6', 'route', 'show', 'table', 'local'])
    t.match(text, /local fd00:1::\/112 dev lo proto 117/)
    t.match(text, /local fd00:2::1 dev lo proto 117/)
    t.notMatch(await netns.run('ip', ['-6', 'addr', 'show']), /fd00:/, 'others are gone')
    await routes.remove()
    t.equal(await everything(), before)
  })
})

t.test('thousands of addresses come and go', needsNetns, async t => {
  const { host, binds, everything } = await fixture()
  const before = await everything()
  const numbers = Array.from({ length: 10_000 }, (_, i) => i)
  const wanted = [
    ...numbers.map(i => `10.9.${i >> 8}.${i & 255}/32`),
    ...numbers.slice(0, 1000).map(i => `fd00::1:${i.toString(16)}/128`),
  ]
  t.strictSame(await host.sync(wanted), none)
  t.strictSame(await binds('10.9.39.15', 'fd00::1:3e7'), [true, true])
  await host.remove()
  t.equal(await everything(), before)
})

t.test('probing', needsNetns, async t => {
  const { host, netns, everything } = await fixture()
  const before = await everything()
  t.match(await host.probe('IPv4'), { usable: true, detail: /^iproute2-/ })
  t.match(await host.probe('IPv6'), { usable: true, detail: /^iproute2-/ })
  t.equal(await everything(), before, 'leaves nothing behind')
  await netns.run('sysctl', ['-qw', 'net.ipv6.conf.all.disable_ipv6=1'])
  t.match(await host.probe('IPv6'), { usable: false, detail: /IPv6 is disabled/ })
  t.match(
    await host.sync(['fd00::7/128']),
    new Map([['fd00::7/128', /IPv6 is disabled/]]),
  )
  await t.resolves(host.remove())
})

t.test('without privileges each address fails for that reason', needsNetns, async t => {
  const netns = await makeNetns('ha')
  const run: RunTool = (command, args, options) =>
    netns.run('setpriv', ['--bounding-set=-net_admin', command, ...args], options)
  const host = new LinuxHostAddresses({ run, clock: new FakeClock() })
  const denied = /Operation not permitted/
  t.match(await host.probe('IPv4'), { usable: false, detail: denied })
  const errors = await host.sync(['192.0.2.7/32', 'fd00::7/128'])
  t.match(
    [...errors],
    [
      ['192.0.2.7/32', denied],
      ['fd00::7/128', denied],
    ],
  )
})

t.test('what was taken away and could not be put back is tried again', async t => {
  const clock = new FakeClock()
  let routes = new Set<string>()
  let failure = ''
  const run: RunTool = async (_command, args, { input = '' } = {}) => {
    if (args.includes('rule')) return '0:\tfrom all lookup local\n'
    if (!args.includes('-batch')) return [...routes].map(one => `local ${one}`).join('\n')
    if (failure !== '') {
      const text = failure === 'missing' ? '' : `${failure}\nCommand failed -:1\n`
      throw new ToolError('ip: no', text === '' ? 'missing' : 'failed', text)
    }
    for (const [, cidr = ''] of input.matchAll(/add local (\S+)/g)) routes.add(cidr)
    return ''
  }
  const host = new LinuxHostAddresses({ run, clock, families: ['IPv4'] })
  const wanted = ['192.0.2.7/32']
  const told: string[] = []
  await host.sync(wanted)
  t.teardown(host.watch(what => told.push(what)))
  const look = async (ms: number): Promise<void> => {
    await until('it waits', () => clock.waiting > 0)
    clock.advance(ms)
    await until('it has looked', () => clock.waiting > 0)
  }
  for (const problem of ['Network is down', 'missing']) {
    told.length = 0
    routes = new Set()
    await look(4000)
    t.equal(told.length, 1)
    failure = problem
    t.equal((await host.sync(wanted)).size, 1)
    await look(4000)
    t.equal(told.length, 1, 'not at once')
    failure = ''
    await look(30_000)
    t.strictSame(told, Array(2).fill('taken away: 192.0.2.7/32'), problem)
    t.strictSame(await host.sync(wanted), none)
    await look(34_000)
    t.equal(told.length, 2, 'it is there again')
  }
})

t.test('while the kernel tells of no change, looks run no tool', needsNetns, async t => {
  const { netns, clock, calls, ip } = await fixture()
  const run: RunTool = (command, args, options) => {
    calls.push(command)
    return netns.run(command, args, options)
  }
  const host = new LinuxHostAddresses({
    run,
    clock,
    spawnMonitor: (command, args) => {
      const [first = '', ...rest] = netns.prefix
      return spawnMonitor(first, [...rest, command, ...args])
    },
  })
  await host.sync(['192.0.2.7/32', 'fd00::7/128'])
  const told: string[] = []
  t.teardown(host.watch(what => told.push(what)))
  const looks = async (count: number): Promise<number> => {
    calls.length = 0
    for (let i = 0; i < count; i++) {
      await until('the look before', () => clock.waiting > 0)
      clock.advance(4000)
    }
    await until('the last look', () => clock.waiting > 0)
    return calls.length
  }
  await until('all is still', async () => (await looks(1)) === 0)
  t.equal(await looks(20), 0)
  const changes = [
    ['-4', 'route', 'del', 'local', '192.0.2.7', 'dev', 'lo'],
    ['-6', 'addr', 'del', 'fd00::7/128', 'dev', 'lo'],
    ['-4', 'rule', 'del', 'table', 'local'],
  ]
  for (const change of changes) {
    await ip(...change)
    await setTimeout(100)
    t.ok((await looks(1)) > 0)
    t.equal(told.length, 1, change.join(' '))
    told.length = 0
    await host.sync(['192.0.2.7/32', 'fd00::7/128'])
  }
})

t.test('a tool that is missing, or breaks off, is said so', async t => {
  const clock = new FakeClock()
  let stderr = ''
  const run: RunTool = async (command, args) => {
    if (stderr === '') throw new ToolError(`${command}: not found`, 'missing', '')
    if (args.includes('-batch')) throw new ToolError('ip: broke off', 'failed', stderr)
    return ''
  }
  const host = new LinuxHostAddresses({ run, clock })
  t.strictSame(
    await host.sync(['192.0.2.7/32']),
    new Map([['192.0.2.7/32', 'ip: not found']]),
  )
  t.match(await host.probe('IPv4'), { usable: false, detail: 'ip: not found' })
  await t.rejects(host.remove(), { message: 'ip: not found' })
  stderr = 'Error: any valid prefix is expected rather than "x".\n'
  t.strictSame(
    await host.sync(['192.0.2.7/32']),
    new Map([['192.0.2.7/32', 'ip: broke off']]),
  )
})

t.test('errors of a batch belong to lines', t => {
  const text =
    'RTNETLINK answers: File exists\nCommand failed -:2\nError: ipv6: no.\nCommand failed -:9\n'
  t.strictSame(
    lineErrors(text),
    new Map([
      [1, 'File exists'],
      [8, 'ipv6: no.'],
    ]),
  )
  t.equal(lineErrors(`${text}Error: any valid prefix is expected.\n`), undefined)
  t.equal(lineErrors('Cannot open netlink socket\n'), undefined)
  t.end()
})

t.test(
  'without the rule for table local nothing is reached, and that is said',
  needsNetns,
  async t => {
    const { host, ip } = await fixture()
    t.strictSame(await host.sync(['192.0.2.1/32']), none)
    await ip('rule', 'del', 'table', 'local')
    t.strictSame(await host.missing(), ['the rule for table local, IPv4'])
    t.match(
      (await host.sync(['192.0.2.1/32'])).get('192.0.2.1/32'),
      /no rule .* table local/,
    )
    t.strictSame(await host.missing(), [], 'once')
    await ip('rule', 'add', 'pref', '0', 'table', 'local')
    t.strictSame(await host.missing(), ['the rule for table local, IPv4'])
    t.strictSame(await host.sync(['192.0.2.1/32']), none)
  },
)
