import * as fc from 'fast-check'
import t from 'tap'
import { parseBytes } from '../../src/config/bytes.ts'
import { commandNames, type Command } from '../../src/config/commands.ts'
import { parseDuration } from '../../src/config/duration.ts'
import { table, type Row } from '../../src/config/options.ts'
import { parseOptions, wantsHelp } from '../../src/config/parse.ts'
import { suggest } from '../../src/config/suggest.ts'
import { defaultOf } from '../../src/config/typed.ts'
import { UsageError } from '../../src/config/usage-error.ts'

const run = (...args: string[]) => parseOptions('run', ['--manifests', 'm.yaml', ...args])

const refusal = (command: Command, ...args: string[]): string => {
  try {
    parseOptions(command, args)
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  return 'taken'
}

const refused = (...args: string[]): string => refusal('run', 'm.yaml', ...args)

const once = (...args: string[]) => parseOptions('demo', args).once

const address = (text: string) => parseOptions('status', ['--address', text]).address

const range = (text: string) => run('--proxy-port-range', text).proxyPortRange

const metrics = (text: string) =>
  run('--metrics-bind-address', text).metricsBindAddress ?? 'off'

t.test('every default in the table is a value its own flag takes', async t => {
  for (const [flag, row] of Object.entries<Row>(table)) {
    for (const command of row.commands) {
      const { type } = row
      if (type.kind !== 'value') continue
      t.doesNotThrow(() => type.parse(defaultOf(row, command)), `--${flag} of ${command}`)
    }
  }
})

t.test(
  'rows of one group stand together, so that help shows each group once',
  async t => {
    const groups = Object.values<Row>(table).map(row => row.group)
    const starts = groups.filter((group, index) => group !== groups[index - 1])
    t.equal(starts.length, new Set(starts).size)
  },
)

t.test('run with nothing but manifests has the documented defaults', async t => {
  t.strictSame(run(), {
    manifests: ['m.yaml'],
    bindAddress: '0.0.0.0',
    proxyPortRange: undefined,
    capture: 'auto',
    metricsBindAddress: { address: '127.0.0.1', port: 10249 },
    healthzBindAddress: { address: '0.0.0.0', port: 10256 },
    dialLadder: [250, 500, 1000, 2000],
    halfCloseTimeout: 60_000,
    tcpIdleTimeout: 0,
    connectionBuffer: 196_608,
    udpReplyTimeout: 5000,
    udpTimeout: 30_000,
    udpMaxFlowsPerPort: 16_384,
    udpMaxFlows: 65_536,
    drainTimeout: 30_000,
    reservedFds: 128,
    syncPeriod: 30_000,
    minSyncPeriod: 0,
    logLevel: 'info',
    logFormat: 'auto',
  })
})

t.test('options are typed by the table', async t => {
  // The compiler is the judge of these lines; the assertions only use the names.
  const options = run()
  const drain: number = options.drainTimeout
  const capture: 'auto' | 'local' | 'none' = options.capture
  const paths: readonly string[] = options.manifests
  // @ts-expect-error -- run has no --json
  const { json } = options
  t.strictSame([drain, capture, paths, json], [30_000, 'auto', ['m.yaml'], undefined])
})

t.test('the demo listens on loopback only unless told otherwise', async t => {
  const options = parseOptions('demo', [])
  t.equal(options.bindAddress, '127.0.0.1')
  t.strictSame(options.healthzBindAddress, { address: '127.0.0.1', port: 0 })
  t.equal(parseOptions('demo', ['--bind-address', '::']).bindAddress, '::')
})

t.test('manifests are gathered from flags and bare arguments, in order', async t => {
  const args = ['a', '--manifests', 'b', '--capture=none', 'c', '--', '--d']
  t.strictSame(parseOptions('run', args).manifests, ['a', 'b', 'c', '--d'])
  t.strictSame(parseOptions('check', ['x', 'y']).manifests, ['x', 'y'])
})

t.test('a flag that is not a list counts the last time it is given', async t => {
  t.equal(run('--drain-timeout', '1s', '--drain-timeout=2s').drainTimeout, 2000)
  t.match(refused('--drain-timeout', 'x', '--drain-timeout=2s'), '"x" is not a duration')
})

t.test('a switch is on, off or spelt out', async t => {
  t.equal(once(), false)
  t.equal(once('--once'), true)
  t.equal(once('--once=true'), true)
  t.equal(once('--once=false'), false)
  t.equal(once('--once', '--no-once'), false)
  t.equal(once('--no-once', '--once'), true)
  t.match(refusal('demo', '--once=maybe'), '--once: "maybe" is neither true nor false')
  t.match(refusal('demo', '--once', 'maybe'), 'unexpected argument "maybe"')
})

t.test('a wrong call is refused with the flag, the value and what is right', async t => {
  const cases: readonly (readonly [string[], string])[] = [
    [
      ['--drain-timeout', 'abc'],
      '--drain-timeout: "abc" is not a duration; give a number with a unit, like 30s or 1m30s',
    ],
    [['--drain-timeout', '30'], '"30" is not a duration'],
    [['--drain-timeout=-1s'], '"-1s" is not a duration'],
    [['--drain-timeout', '600h'], '"600h" is too long; give 576h (24 days) or less'],
    [['--tcp-idle-timeout', '500us'], '"500us" is too short; give 0, or 1ms or more'],
    [['--half-close-timeout', '0'], '"0" is too short; give 1ms or more'],
    [['--dial-ladder', '1s,0,2s'], '--dial-ladder: "0" is too short'],
    [['--dial-ladder', ''], '--dial-ladder: "" is not a duration'],
    [['--dial-ladder', '1s,'], '--dial-ladder: "" is not a duration'],
    [['--dial-ladder', Array(17).fill('1s').join(',')], 'has 17 steps'],
    [
      ['--connection-buffer', '64k'],
      '"64k" is not a number of bytes; give one like 64KiB',
    ],
    [['--connection-buffer', '4095'], '"4095" is out of range; give 4KiB to 16MiB'],
    [['--connection-buffer', '17MiB'], 'give 4KiB to 16MiB'],
    [['--udp-max-flows', '0'], '"0" is not a whole number from 1 to 10000000'],
    [['--udp-max-flows', '1e3'], '"1e3" is not a whole number'],
    [['--udp-max-flows', '1.5'], '"1.5" is not a whole number'],
    [['--capture', 'Auto'], '"Auto" is not one of the choices; give auto, local, none'],
    [['--bind-address', 'localhost'], '"localhost" is not an IP address; give one like'],
    [['--bind-address', '010.0.0.1'], '"010.0.0.1" is not an IP address'],
    [['--bind-address', 'fe80::1%eth0'], 'is not an IP address'],
    [['--metrics-bind-address', ':10249'], '":10249" is not an IP address with a port'],
    [['--metrics-bind-address', '127.0.0.1:70000'], 'is not an IP address with a port'],
    [['--healthz-bind-address', '::1:x'], 'like 127.0.0.1:10256 or [::1]:10256, or off'],
    [['--proxy-port-range', '2000-1000'], '"2000-1000" is not a range of ports'],
    [['--proxy-port-range', '0-100'], 'is not a range of ports'],
    [['--proxy-port-range', '65000+1000'], 'is not a range of ports'],
    [['--proxy-port-range', '1-2-3'], 'is not a range of ports'],
    [['--log-level', 'loud'], '--log-level: "loud" is not one of the choices'],
    [['--manifests', ''], '--manifests: the value is empty; give a PATH'],
    [['--manifests'], '--manifests: the value is missing; give it as --manifests PATH'],
    [['--log-level', '--capture', 'none'], '--log-level: the value is missing'],
    [['--min-sync-period', '31s'], '--min-sync-period: 31000ms is longer than'],
    [
      ['--drain-timeot', '1s'],
      'unknown flag --drain-timeot; did you mean --drain-timeout?',
    ],
    [['--drain', '1s'], 'did you mean --drain-timeout?'],
    [['--quux'], 'unknown flag --quux'],
    [['-x'], 'unknown flag -x'],
    [['--no-capture'], 'unknown flag --no-capture'],
    [['--__proto__', 'x'], 'unknown flag --__proto__'],
    [['--once'], '--once is a flag of usher demo only'],
  ]
  for (const [args, message] of cases) {
    t.ok(refused(...args).includes(message), `${args.join(' ')}: ${refused(...args)}`)
  }
})

t.test('a command that lacks what it needs says how to give it', async t => {
  t.match(refusal('run'), 'usher run --manifests deploy/examples/demo.yaml')
  t.match(refusal('sidecar'), "usher sidecar --route 'tcp://")
  t.match(refusal('check', '--capture', 'none'), 'no files given')
})

t.test('routes are parsed, and a bad one is refused with its flag', async t => {
  const good = 'tcp://127.0.0.1:15432=10.0.0.5:5432,db.example:5432'
  const { route } = parseOptions('sidecar', [
    '--route',
    good,
    `--route=udp${good.slice(3)}`,
  ])
  t.match(route, [
    { protocol: 'TCP', listen: { address: '127.0.0.1', port: 15432 } },
    { protocol: 'UDP', backends: [{ host: '10.0.0.5' }, { host: 'db.example' }] },
  ])
  t.match(
    refusal('sidecar', '--route', '127.0.0.1:1'),
    /^--route: route "127.0.0.1:1":? /,
  )
  t.match(refusal('sidecar', '--route', good, 'stray'), 'unexpected argument "stray"')
})

t.test('a bind address may be a bare IP, have port 0, or be off', async t => {
  t.strictSame(metrics('192.0.2.1'), { address: '192.0.2.1', port: 10249 })
  t.strictSame(metrics('::1'), { address: '::1', port: 10249 })
  t.strictSame(metrics('[::1]'), { address: '::1', port: 10249 })
  t.strictSame(metrics('[0:0::1]:0'), { address: '::1', port: 0 })
  t.strictSame(metrics('127.0.0.1:9'), { address: '127.0.0.1', port: 9 })
  t.equal(metrics('off'), 'off')
})

t.test('a port range is written in any of kube-proxy’s forms', async t => {
  t.strictSame(range('30000-32000'), { first: 30_000, last: 32_000 })
  t.strictSame(range('30000+10'), { first: 30_000, last: 30_010 })
  t.strictSame(range('8080'), { first: 8080, last: 8080 })
  t.strictSame([range(''), range('0'), range('0-0')], [undefined, undefined, undefined])
})

t.test(
  'the address to ask for status gets the default port when it has none',
  async t => {
    t.equal(address('localhost'), 'localhost:10249')
    t.equal(address('::1'), '[::1]:10249')
    t.equal(address('[::1]:1'), '[::1]:1')
    t.equal(address('10.0.0.1:80'), '10.0.0.1:80')
    for (const bad of ['a/b:80', 'http://x:80', 'x@y:80', 'x:0', ''])
      t.match(refusal('status', `--address=${bad}`), 'is not a host with a port', bad)
  },
)

t.test('durations follow Go’s syntax', async t => {
  t.equal(parseDuration('1h0m0s'), 3_600_000)
  t.equal(parseDuration('250ms'), 250)
  t.equal(parseDuration('1.5s'), 1500)
  t.equal(parseDuration('.5m1.s'), 31_000)
  t.equal(parseDuration('0'), 0)
  for (const bad of ['', '1', '1 s', 's', '1d', '1S', '.s', '+1s', '-1s', '1s1', '1e3s'])
    t.equal(parseDuration(bad), undefined, JSON.stringify(bad))
})

t.test('a duration is the sum of its parts', async t => {
  const units = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }
  const unit = fc.constantFrom('h', 'm', 's', 'ms')
  const parts = fc.array(fc.tuple(fc.nat(99), unit), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(parts, given => {
      const text = given.map(([number, name]) => `${number}${name}`).join('')
      const sum = given.reduce((ms, [number, name]) => ms + number * units[name], 0)
      return parseDuration(text) === sum
    }),
  )
  t.pass()
})

t.test('bytes have binary units or none', async t => {
  t.equal(parseBytes('65536'), 65_536)
  t.equal(parseBytes('512B'), 512)
  t.equal(parseBytes('64KiB'), 65_536)
  t.equal(parseBytes('64Ki'), 65_536)
  t.equal(parseBytes('2GiB'), 2 * 1024 ** 3)
  for (const bad of ['', '64KB', '64k', '1.5MiB', '-1', 'KiB'])
    t.equal(parseBytes(bad), undefined, JSON.stringify(bad))
})

t.test('any argument at all is taken or refused by a UsageError', async t => {
  const flag = fc.constantFrom(...Object.keys(table).map(name => `--${name}`))
  const word = fc.oneof(flag, fc.string(), fc.constantFrom('-', '--', '0', '1s', '--a=b'))
  fc.assert(
    fc.property(fc.constantFrom(...commandNames), fc.array(word), (command, args) => {
      refusal(command, ...args)
    }),
  )
  t.pass()
})

t.test('the nearest known word is suggested, and none when all are far', async t => {
  const known = ['run', 'sidecar', 'demo', 'check', 'status']
  t.equal(suggest('rnu', known), 'run')
  t.equal(suggest('staus', known), 'status')
  t.equal(suggest('chekc', known), 'check')
  t.equal(suggest('side', known), 'sidecar')
  t.equal(suggest('delete', known), undefined)
  t.equal(suggest('', known), undefined)
  t.equal(suggest('x'.repeat(100_000), known), undefined)
})

t.test('help is wanted wherever it stands before --', async t => {
  t.ok(wantsHelp(['a', '--capture', 'none', '--help']))
  t.ok(wantsHelp(['-h']))
  t.notOk(wantsHelp(['--', '--help']))
})
