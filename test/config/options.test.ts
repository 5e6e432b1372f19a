import * as fc from 'fast-check'
import t from 'tap'
import type { CaptureName } from '../../src/capture/capture.ts'
import { commandNames, type Command } from '../../src/config/commands.ts'
import {
  valueAt,
  withDefaults,
  withValue,
} from '../../src/config/kube-proxy/configuration.ts'
import { camelCase, table } from '../../src/config/options.ts'
import {
  fieldValue,
  parseOptions,
  wantsHelp,
  wantsVersion,
} from '../../src/config/parse.ts'
import { defaultOf, type Row } from '../../src/config/row.ts'
import { parseBytes } from '../../src/util/bytes.ts'
import { UsageError } from '../../src/config/usage-error.ts'
import { goDuration, goMilliseconds, parseDuration } from '../../src/util/duration.ts'
import { suggest } from '../../src/util/suggest.ts'
import { badFlags } from './bad-flags.ts'

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
      if (type.metavar === '' || type.join !== undefined) continue
      const texts = [defaultOf(row, command)]
      t.doesNotThrow(() => type.read(fieldValue(type, texts)), `--${flag} of ${command}`)
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
    config: '',
    takeOver: 'auto',
    orphanTimeout: 30_000,
    writeConfigTo: '',
    controlSocket: '',
    kubeconfig: '',
    master: '',
    kubeApiQps: 5,
    kubeApiBurst: 10,
    hostnameOverride: '',
    bindAddress: '0.0.0.0',
    bindAddressHardFail: false,
    proxyPortRange: undefined,
    capture: 'auto',
    serviceCidr: [],
    nodeportAddresses: [],
    externalIps: true,
    stateDir: '',
    podDir: '',
    keepRules: false,
    connectTime: 'off',
    connectTimeCgroup: '',
    connectTimeExempt: [],
    connectTimeBpffs: '/sys/fs/bpf',
    metricsBindAddress: { address: '127.0.0.1', port: 10249 },
    healthzBindAddress: { address: '0.0.0.0', port: 10256 },
    relay: 'auto',
    relayWorkers: 0,
    tcpKeepalive: 15_000,
    tcpKeepaliveInterval: 1000,
    tcpKeepaliveProbes: 10,
    tcpUserTimeout: 0,
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
    minSyncPeriod: 1000,
    logLevel: 'info',
    logFormat: 'auto',
    v: 0,
    loggingFormat: 'text',
    proxyMode: '',
    clusterCidr: [],
    detectLocalMode: '',
    iptablesSyncPeriod: 30_000,
    iptablesMinSyncPeriod: 1000,
    oomScoreAdj: -999,
    featureGates: {},
    healthzPort: 10_256,
    metricsPort: 10_249,
    cleanup: false,
    initOnly: false,
    version: false,
    iptablesMasqueradeBit: 14,
    masqueradeAll: false,
    iptablesLocalhostNodeports: true,
    nftablesLocalhostNodeports: false,
    nftablesFlowtableDevices: [],
    ipvsSyncPeriod: 30_000,
    ipvsMinSyncPeriod: 0,
    ipvsScheduler: '',
    ipvsExcludeCidrs: [],
    ipvsStrictArp: false,
    ipvsTcpTimeout: '0s',
    ipvsTcpfinTimeout: '0s',
    ipvsUdpTimeout: '0s',
    podBridgeInterface: '',
    podInterfaceNamePrefix: '',
    conntrackMaxPerCore: 32_768,
    conntrackMin: 131_072,
    conntrackMax: 0,
    conntrackTcpTimeoutEstablished: '24h0m0s',
    conntrackTcpTimeoutCloseWait: '1h0m0s',
    conntrackTcpBeLiberal: false,
    conntrackUdpTimeout: '0s',
    conntrackUdpTimeoutStream: '0s',
  })
})

t.test('the default of a flag is that of its field in the file', async t => {
  const byDefault = withDefaults({})
  for (const [flag, row] of Object.entries<Row>(table)) {
    if (row.field === undefined) continue
    const text = defaultOf(row, 'run')
    const given = fieldValue(row.type, text === '' && row.type.join ? [] : [text])
    const read = valueAt(withDefaults(withValue({}, row.field, given)), row.field)
    const value = valueAt(byDefault, row.field)
    // Of what is not there by default, and of lists, nothing is as good as empty.
    if (value === undefined || value === null)
      t.ok(/^(?:""|false|\[\]|\{\})$/.test(JSON.stringify(read)), flag)
    else t.strictSame(read, value, `--${flag} and ${row.field}`)
  }
})

t.test('a flag without effect has no option', async t => {
  const options = Object.keys(run('--ipvs-scheduler=rr', '--conntrack-min', '0'))
  for (const [flag, row] of Object.entries<Row>(table))
    if (row.noEffect !== undefined) t.notOk(options.includes(camelCase(flag)), flag)
})

t.test('options are typed by the table', async t => {
  // The compiler is the judge of these lines; the assertions only use the names.
  const options = run()
  const drain: number = options.drainTimeout
  const capture: CaptureName | 'auto' = options.capture
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
  for (const yes of ['1', 't', 'T', 'TRUE', 'True']) t.equal(once(`--once=${yes}`), true)
  for (const no of ['0', 'f', 'F', 'FALSE', 'False']) t.equal(once(`--once=${no}`), false)
  t.equal(once('--once', '--no-once'), false)
  t.equal(once('--no-once', '--once'), true)
  t.match(refusal('demo', '--once=maybe'), '--once: "maybe" is neither true nor false')
  t.match(refusal('demo', '--once', 'maybe'), 'unexpected argument "maybe"')
})

t.test('a wrong call is refused with the flag, the value and what is right', async t => {
  for (const [args, message] of badFlags) {
    t.ok(refused(...args).includes(message), `${args.join(' ')}: ${refused(...args)}`)
  }
})

t.test('a command that lacks what it needs says how to give it', async t => {
  t.match(refusal('sidecar'), "usher sidecar --route 'tcp://")
  t.equal(refusal('check'), 'taken')
  t.equal(refusal('check', '--config', 'c.yaml'), 'taken')
  t.equal(refusal('run'), 'taken')
})

t.test('routes are parsed, and a bad one is refused with its flag', async t => {
  const good = 'tcp://127.0.0.1:15432=10.0.0.5:5432,db.example:5432'
  const { route } = parseOptions('sidecar', [
    '--route',
    good,
    `--route=udp${good.slice(3)}`,
  ])
  t.match(route, [
    { protocol: 'TCP', listens: [{ address: '127.0.0.1', port: 15432 }] },
    { protocol: 'UDP', backends: [{ host: '10.0.0.5' }, { host: 'db.example' }] },
  ])
  t.match(
    refusal('sidecar', '--route', '127.0.0.1:1'),
    /^--route: route "127.0.0.1:1":? /,
  )
  t.match(
    refusal('sidecar', '--route', good, 'stray.yaml'),
    'unexpected argument "stray.yaml"; give a file of routes as --config stray.yaml',
  )
  t.match(refusal('sidecar', good), `give a route as --route ${good}`)
  t.match(
    refusal('sidecar', '--on-down', 'reset'),
    "unknown flag --on-down; it is an option of a route, like --route '...?on-down=...'",
  )
})

t.test('resolvers are addresses, with a port or DNS’s own', async t => {
  const route = '--route=tcp://127.0.0.1:15432=db.example:5432'
  const resolvers = (...given: string[]) =>
    parseOptions('sidecar', [route, ...given.map(text => `--resolver=${text}`)]).resolver
  t.strictSame(resolvers(), [])
  t.strictSame(resolvers('10.0.0.2, 10.0.0.3:5353,[FD00::2]:53', 'fd00:0::3,[::1]'), [
    { address: '10.0.0.2', port: 53 },
    { address: '10.0.0.3', port: 5353 },
    { address: 'fd00::2', port: 53 },
    { address: 'fd00::3', port: 53 },
    { address: '::1', port: 53 },
  ])
  const noAddress =
    'is not the IP address of a DNS server; give one like 10.0.0.2, 10.0.0.3:5353 or [fd00::2]:5353'
  const host = 'is not the address of one host; give that of a DNS server'
  const cases = [
    ['dns.example', noAddress],
    ['10.0.0.2:0', noAddress],
    ['10.0.0.2:65536', noAddress],
    ['10.0.0.256', noAddress],
    ['fe80::1%eth0', noAddress],
    ['0.0.0.0', host],
    ['[ff02::fb]:5353', host],
  ] as const
  for (const [text, message] of cases)
    t.equal(
      refusal('sidecar', route, `--resolver=10.0.0.1,${text}`),
      `--resolver: "${text}" ${message}`,
    )
  t.match(
    refusal('sidecar', route, '--resolver=10.0.0.1,'),
    `--resolver: "" ${noAddress}`,
  )
  t.match(refusal('run', '--resolver=10.0.0.1'), '--resolver is a flag of usher sidecar')
  t.match(
    refusal('wait', '--control-socket=/a'),
    /is a flag of usher run, sidecar, .* close, status, get, top, tap or explain only/,
  )
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

t.test('the relay and how it looks after connections can be told', async t => {
  const { relay, relayWorkers } = run('--relay=linux', '--relay-workers=64')
  t.strictSame([relay, relayWorkers], ['linux', 64])
  t.equal(run('--tcp-keepalive', '0').tcpKeepalive, 0)
  t.equal(run('--tcp-keepalive', '1m30s').tcpKeepalive, 90_000)
  t.equal(run('--tcp-keepalive-interval', '9h').tcpKeepaliveInterval, 32_400_000)
  t.equal(run('--tcp-user-timeout', '1500ms').tcpUserTimeout, 1500)
})

t.test('durations follow Go’s syntax', async t => {
  t.equal(parseDuration('1h0m0s'), 3_600_000)
  t.equal(parseDuration('250ms'), 250)
  t.equal(parseDuration('1.5s'), 1500)
  t.equal(parseDuration('.5m1.s'), 31_000)
  t.equal(parseDuration('0'), 0)
  for (const bad of ['', '1', '1 s', 's', '1d', '1S', '.s', '+1s', '-1s', '1s1', '1e3s'])
    t.equal(parseDuration(bad), undefined, JSON.stringify(bad))
})

t.test('durations are written as Go writes them', async t => {
  const cases: readonly (readonly [string, string])[] = [
    ['0', '0s'],
    ['90m', '1h30m0s'],
    ['1.5s', '1.5s'],
    ['.25s', '250ms'],
    ['1500us', '1.5ms'],
    ['1ns', '1ns'],
    ['1μs', '1µs'],
    ['-1m0.5s', '-1m0.5s'],
    ['+24h', '24h0m0s'],
    ['2562047h', '2562047h0m0s'],
  ]
  for (const [given, written] of cases) {
    t.equal(goDuration(given), written, given)
    t.equal(goDuration(written), written, written)
  }
  for (const bad of ['', '1', 's', '1d', '--1s', '2562048h', '1s 1s', '.s'])
    t.equal(goDuration(bad), undefined, bad)
  t.equal(goMilliseconds('-1.5s'), -1500)
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

t.test('verbosity is given in every way that kube-proxy takes', async t => {
  const ways = [['-v', '4'], ['-v=4'], ['-v4'], ['--v', '4'], ['--v=4']]
  for (const args of ways) t.equal(run(...args).v, 4, args.join(' '))
})

t.test('negative numbers are values, in a word of their own too', async t => {
  t.equal(run('--oom-score-adj', '-500').oomScoreAdj, -500)
  t.equal(run('--kube-api-qps=-1').kubeApiQps, -1)
  t.equal(run('--kube-api-qps', '2.5').kubeApiQps, 2.5)
})

t.test('underscores stand for dashes, as with kube-proxy', async t => {
  t.equal(run('--bind_address=::1').bindAddress, '::1')
  t.equal(run('--bind_address', '::1', '--log_dir', '/a_b').bindAddress, '::1')
  t.strictSame(parseOptions('run', ['--', '--a_b']).manifests, ['--a_b'])
})

t.test('the name of the node is trimmed and lower-case', async t => {
  t.equal(run('--hostname-override', ' Node-1 ').hostnameOverride, 'node-1')
  t.equal(run('--hostname-override=').hostnameOverride, '')
})

t.test('the version is wanted after run, but not after demo or --', async t => {
  t.ok(wantsVersion('run', ['--version']))
  t.ok(wantsVersion('check', ['x', '--version=raw']))
  t.notOk(wantsVersion('run', ['--version=false']))
  t.notOk(wantsVersion('run', ['--', '--version']))
  t.notOk(wantsVersion('demo', ['--version']))
})

t.test('help is wanted wherever it stands before --', async t => {
  t.ok(wantsHelp(['a', '--capture', 'none', '--help']))
  t.ok(wantsHelp(['-h']))
  t.notOk(wantsHelp(['--', '--help']))
})

t.test('the variable of the control socket does not count beside another address', t => {
  const before = process.env['USHER_CONTROL_SOCKET']
  process.env['USHER_CONTROL_SOCKET'] = '/run/usher.sock'
  t.teardown(() => {
    if (before === undefined) delete process.env['USHER_CONTROL_SOCKET']
    else process.env['USHER_CONTROL_SOCKET'] = before
  })
  for (const command of ['status', 'top'] as const) {
    t.equal(parseOptions(command, []).controlSocket, '/run/usher.sock')
    t.equal(parseOptions(command, ['--address=10.0.0.1:10249']).controlSocket, '')
  }
  t.end()
})
