import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import t from 'tap'
import { fieldPaths, valueAt } from '../../src/config/kube-proxy/configuration.ts'
import { configurationYaml } from '../../src/config/kube-proxy/yaml.ts'
import { readConfigFile } from '../../src/config/settings/load-file.ts'
import { runSettings } from '../../src/config/run-settings.ts'
import { UsageError } from '../../src/config/usage-error.ts'
import { badFields, badFiles, wrongTypes } from './kube-proxy/bad-fields.ts'
import { fieldFlags, plainFlags } from './kube-proxy/flags.ts'

const head =
  'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

const noFile = async (path: string): Promise<string> => {
  throw new Error(`nobody is to read ${path}`)
}

const withFlags = (...args: string[]) => runSettings(args, noFile)

const withFile = (text: string, ...args: string[]) =>
  runSettings(['--config', 'c.conf', ...args], async () => text)

/** With the lines of a file, or a flow mapping of them. */
const withLines = (lines: string, ...args: string[]) =>
  withFile(
    head +
      (lines.startsWith('{') ? lines.slice(1, -1).replace(/, (?=[a-z]+:)/, '\n') : lines),
    ...args,
  )

const refusal = async (settings: Promise<unknown>): Promise<string> => {
  try {
    await settings
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  return 'taken'
}

const golden = (name: string): string =>
  readFileSync(new URL(`golden/${name}`, import.meta.url), 'utf8')

t.test('every flag of kube-proxy with a field sets that field', async t => {
  for (const [flag, field, value] of fieldFlags) {
    const { configuration } = await withFlags(flag)
    t.strictSame(valueAt(configuration, field), value, flag)
  }
})

t.test('every other flag of kube-proxy is taken', async t => {
  for (const flag of plainFlags) await t.resolves(withFlags(flag), flag)
})

t.test('the defaults are those of kube-proxy', async t => {
  const { configuration, warnings } = await withFlags()
  t.equal(configurationYaml(configuration), golden('defaults.conf'))
  t.strictSame(warnings, [])
})

t.test('what kubeadm writes loads, zeros standing for defaults', async t => {
  const { configuration, options, warnings, cluster } = await withFile(
    golden('kubeadm.conf'),
  )
  t.strictSame(warnings, [])
  const expected = golden('defaults.conf')
    .replace('kubeconfig: ""', 'kubeconfig: /var/lib/kube-proxy/kubeconfig.conf')
    .replace('clusterCIDR: ""', 'clusterCIDR: 10.244.0.0/16')
  t.equal(configurationYaml(configuration), expected)
  t.match(options, {
    syncPeriod: 30_000,
    minSyncPeriod: 1000,
    logLevel: 'info',
    logFormat: 'auto',
  })
  t.match(cluster, {
    kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf',
    qps: 5,
    burst: 10,
  })
})

t.test('a file of kube-proxy 1.25 in userspace mode means what it meant', async t => {
  const settings = await withFile(golden('kube-proxy-1.25.conf'))
  t.match(settings.options, {
    bindAddress: '::',
    proxyPortRange: { first: 30_000, last: 32_000 },
    metricsBindAddress: { address: '::1', port: 10_249 },
    healthzBindAddress: { address: '192.0.2.1', port: 10_256 },
    udpTimeout: 12_000,
    syncPeriod: 90_000,
    minSyncPeriod: 2000,
    oomScoreAdj: 0,
    hostnameOverride: 'node-1',
  })
  t.equal(
    configurationYaml(settings.configuration),
    golden('kube-proxy-1.25.written.conf'),
  )
  t.strictSame(settings.localClients, { clusterCidrs: [], nodeCidrs: true })
  t.strictSame(settings.warnings, [
    'ipvs.excludeCIDRs has no effect in userspace mode',
    'configSyncPeriod has no effect here: everything is gone through again at each --sync-period',
    'enableProfiling has no effect here: Usher has no profiles to serve',
    'feature gates without effect: AllAlpha',
  ])
})

t.test('a bad field is refused with the path and words of kube-proxy', async t => {
  for (const [lines, message] of badFields) {
    const said = await refusal(withLines(lines))
    const start = '--config c.conf: failed validate: '
    const whole = `KubeProxyConfiguration.${message}`
    const several = message.includes(', KubeProxyConfiguration.')
    t.equal(said, start + (several ? `[${whole}]` : whole), lines)
  }
})

t.test('all bad fields are named at once', async t => {
  const said = await refusal(withLines('mode: x\noomScoreAdj: 5000'))
  t.match(
    said,
    /failed validate: \[.*OOMScoreAdj: .*, KubeProxyConfiguration\.Mode\.ProxyMode: .*\]$/,
  )
})

t.test(
  'what is no configuration is refused, and what would be right is said',
  async t => {
    for (const [text, message] of badFiles) {
      const said = await refusal(withFile(text))
      t.ok(said.startsWith('--config c.conf: ') && said.includes(message), said)
    }
  },
)

t.test('a value of the wrong type is refused by its path', async t => {
  for (const [lines, message] of wrongTypes) {
    const said = await refusal(withLines(lines))
    t.ok(said.includes('failed to decode: ') && said.includes(message), said)
  }
})

t.test('a file that can’t be read is named', async t => {
  t.equal(
    await refusal(runSettings(['--config=f'], noFile)),
    '--config f: nobody is to read f',
  )
  t.equal(
    await refusal(runSettings(['--config=/nowhere/f'], readConfigFile)),
    '--config /nowhere/f: there is no such file or directory',
  )
  for (const endless of ['/dev/zero', '/dev/urandom'])
    t.equal(
      await refusal(runSettings([`--config=${endless}`], readConfigFile)),
      `--config ${endless}: the file is larger than 256 KiB`,
    )
  for (const deep of ['[', '{a: ', '- '])
    t.equal(
      await refusal(withFile(deep.repeat(10_000))),
      '--config c.conf: line 1: it is nested too deeply: more than 200 levels',
    )
})

t.test('unknown and double keys are read leniently, with a warning', async t => {
  const { options, warnings } = await withLines(
    'bindAdress: ::1\niptables: {foo: 1}\nmode: ipvs\nmode: userspace',
  )
  t.equal(options.proxyMode, 'userspace')
  t.strictSame(warnings, [
    'Using lenient decoding as strict decoding failed: strict decoding error: line 6: the key "mode" is given twice, unknown field "bindAdress" (did you mean "bindAddress"?), unknown field "iptables.foo"',
  ])
})

t.test('JSON is read like YAML, and documents after the first are not', async t => {
  const json = JSON.stringify(
    {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      bindAddress: '::1',
    },
    undefined,
    '\t',
  )
  t.equal((await withFile(json)).options.bindAddress, '::1')
  const two = await withLines('bindAddress: "::1"\n---\n{}')
  t.equal(two.options.bindAddress, '::1')
})

t.test('the file beats flags that have a field, and says which', async t => {
  const args =
    '--bind-address=1.1.1.1 --proxy-mode ipvs --healthz-port=0 --hostname-override=B -v=4 --logging-format=json --dial-ladder=1s --udp-timeout=9s --master=https://m'.split(
      ' ',
    )
  const { options, warnings } = await withLines(
    'bindAddress: "::1"\nhostnameOverride: a\nlogging: {verbosity: 1, format: text}',
    ...args,
  )
  t.match(options, {
    bindAddress: '::1',
    proxyMode: '',
    healthzBindAddress: { address: '::', port: 10_256 },
    hostnameOverride: 'b',
    logLevel: 'debug',
    logFormat: 'json',
    dialLadder: [1000],
    udpTimeout: 9000,
    master: 'https://m',
  })
  t.strictSame(warnings, [
    '--bind-address, --proxy-mode and --healthz-port are ignored, because --config is given',
  ])
  const kept = await withLines('hostnameOverride: A', '--hostname-override=')
  t.equal(kept.options.hostnameOverride, 'a')
})

t.test('flags without effect are named once each, those not given never', async t => {
  const flags = ['--ipvs-scheduler=rr', '--masquerade-all', '--ipvs-scheduler=lc']
  const { warnings } = await withFlags('--proxy-mode=userspace', ...flags, '--enable-dsr')
  t.strictSame(warnings, [
    '--masquerade-all and --ipvs-scheduler have no effect in userspace mode',
    '--enable-dsr has no effect outside Windows',
  ])
  t.strictSame((await withFlags(...flags, '--proxy-mode=iptables')).warnings, [
    '--ipvs-scheduler has no effect in iptables mode',
  ])
  t.strictSame((await withFlags(...flags, '--proxy-mode=ipvs')).warnings, [])
  t.strictSame((await withFlags(...flags)).warnings, [], 'it is not known yet what runs')
})

t.test('where clients are led is of no use where they are not', async t => {
  const flags = ['--connect-time-cgroup=/a', '--connect-time-bpffs=/b']
  t.strictSame((await withFlags(...flags)).warnings, [
    '--connect-time-cgroup has no effect without --connect-time',
  ])
  t.strictSame((await withFlags(...flags, '--connect-time=auto')).warnings, [])
})

t.test('what userspace mode alone has is warned of with a kernel mode', async t => {
  const flags = ['--relay=portable', '--keep-rules']
  t.strictSame((await withFlags('--proxy-mode=iptables', ...flags)).warnings, [
    '--relay and --keep-rules have no effect unless Usher falls back to userspace mode',
  ])
  t.strictSame(
    (await withFlags('--proxy-mode=nftables', ...flags)).warnings,
    ['--keep-rules has no effect unless Usher falls back to userspace mode'],
    'Services that ask for it are carried by that relay',
  )
  t.strictSame((await withFlags('--proxy-mode=userspace', ...flags)).warnings, [])
})

t.test(
  'the mode is that of the flag or the file, else what other flags need',
  async t => {
    const mode = async (settings: ReturnType<typeof withFlags>) => {
      const { mode: asked, by } = (await settings).mode
      return `${asked || 'none'} by ${by || 'nobody'}`
    }
    t.equal(await mode(withFlags()), 'none by nobody')
    t.equal(await mode(withFlags('--proxy-mode=ipvs')), 'ipvs by --proxy-mode')
    t.equal(
      await mode(withLines('mode: iptables', '--relay=linux')),
      'iptables by mode in c.conf',
    )
    t.equal(await mode(withLines('mode: ""')), 'none by nobody')
    for (const flag of [
      '--capture=local',
      '--relay=auto',
      '--relay-workers=2',
      '--proxy-port-range=30000-31000',
      '--keep-rules',
      '--state-dir=/x',
    ]) {
      const [name = ''] = flag.split('=')
      t.equal(
        await mode(withFlags(flag)),
        `userspace by ${name}, which is of userspace mode`,
      )
      t.equal(
        await mode(withFlags(flag, '--proxy-mode=iptables')),
        'iptables by --proxy-mode',
      )
    }
    for (const flag of ['--capture=auto', '--proxy-port-range='])
      t.equal(await mode(withFlags(flag)), 'none by nobody', flag)
  },
)

t.test('no mode is warned of', async t => {
  for (const there of ['userspace', 'iptables', 'ipvs', 'nftables'])
    t.strictSame((await withFlags('--proxy-mode', there)).warnings, [])
})

t.test('what may be incomplete is warned of', async t => {
  const start = 'Kube-proxy configuration may be incomplete or incorrect: '
  const warned = async (...args: string[]) =>
    (await withFlags(...args)).warnings.map(text => text.replace(start, ''))
  t.strictSame(await warned('--detect-local-mode=ClusterCIDR'), [
    'detectLocalMode is ClusterCIDR but clusterCIDR is empty',
  ])
  t.strictSame(
    await warned(
      '--bind-address=192.0.2.1',
      '--cluster-cidr=fd00::/8',
      '--metrics-bind-address=[::1]:1',
    ),
    [
      'bindAddress is IPv4 but clusterCIDR has IPv6 only',
      'bindAddress is IPv4 but metricsBindAddress has IPv6 only',
    ],
  )
  t.strictSame(
    await warned('--bind-address=::1', '--cluster-cidr=fd00::/8,10.0.0.0/8'),
    [],
  )
  const byBridge = ['--detect-local-mode=BridgeInterface', '--pod-bridge-interface=b']
  t.match(await warned('--proxy-mode=userspace', ...byBridge), [
    /pod-bridge-interface has no effect/,
    /BridgeInterface has no effect in userspace mode/,
  ])
  t.strictSame(await warned('--proxy-mode=iptables', ...byBridge), [])
})

t.test('deprecated ports are warned of', async t => {
  t.strictSame((await withFlags('--healthz-port=1')).warnings, [
    '--healthz-port is deprecated; give --healthz-bind-address instead',
  ])
})

t.test(
  'the sync periods of userspace mode are Usher’s own, then the iptables section’s',
  async t => {
    const periods = async (settings: ReturnType<typeof withFlags>) => {
      const { syncPeriod, minSyncPeriod } = (await settings).options
      return [syncPeriod, minSyncPeriod]
    }
    t.strictSame(await periods(withFlags()), [30_000, 1000])
    const section = ['--iptables-sync-period=9s', '--iptables-min-sync-period=2s']
    t.strictSame(await periods(withFlags(...section)), [9000, 2000])
    t.strictSame(
      await periods(withFlags(...section, '--sync-period=8s', '--min-sync-period=0')),
      [8000, 0],
    )
    t.strictSame(await periods(withFlags('--iptables-min-sync-period=0s')), [30_000, 0])
    t.strictSame(
      await periods(withLines('iptables: {minSyncPeriod: 0s, syncPeriod: 7s}')),
      [7000, 1000],
    )
    t.strictSame(
      await periods(withLines('iptables: {minSyncPeriod: 3s}', '--min-sync-period=1s')),
      [30_000, 1000],
    )
    t.strictSame(
      await periods(withLines('iptables: {minSyncPeriod: 3s}', '--sync-period=2s')),
      [2000, 2000],
    )
    t.match(
      await refusal(withLines('iptables: {syncPeriod: 2s}', '--min-sync-period=3s')),
      '--min-sync-period: 3000ms is longer than --sync-period',
    )
  },
)

t.test('each kernel mode has the sync periods of its own section', async t => {
  const periods = async (settings: ReturnType<typeof withFlags>) => {
    const { iptables, ipvs } = (await settings).periods
    return [iptables, ipvs].map(one => [one.syncPeriod, one.minSyncPeriod])
  }
  t.strictSame(await periods(withFlags()), [
    [30_000, 1000],
    [30_000, 1000],
  ])
  const ipvs = ['--ipvs-sync-period=7s', '--ipvs-min-sync-period=2s']
  t.strictSame(await periods(withFlags('--iptables-min-sync-period=3s', ...ipvs)), [
    [30_000, 3000],
    [7000, 2000],
  ])
  t.strictSame(await periods(withFlags('--sync-period=500ms', ...ipvs)), [
    [500, 500],
    [500, 500],
  ])
  t.strictSame(await periods(withFlags('--min-sync-period=0', ...ipvs)), [
    [30_000, 0],
    [7000, 0],
  ])
})

t.test('nftables mode has its own section of the file', async t => {
  const section =
    'nftables: {masqueradeAll: true, masqueradeBit: 9, syncPeriod: 7s, minSyncPeriod: 2s}'
  const { options, kernel, periods } = await withLines(`{mode: nftables, ${section}}`)
  t.equal(options.proxyMode, 'nftables')
  t.match(kernel, {
    masqueradeAll: false,
    nftables: { masqueradeAll: true, masqueradeBit: 9 },
  })
  t.match(periods, {
    nftables: { syncPeriod: 7000, minSyncPeriod: 2000 },
    iptables: { syncPeriod: 30_000, minSyncPeriod: 1000 },
  })
  const plain = await withLines('{mode: nftables}')
  t.match(plain.periods.nftables, { syncPeriod: 30_000, minSyncPeriod: 1000 })
  const flags = await withLines(`{mode: iptables, ${section}}`, '--sync-period=5s')
  t.match(flags.periods.nftables, { syncPeriod: 5000, minSyncPeriod: 2000 })
})

t.test('what kernel modes go by comes from their flags', async t => {
  const { kernel } = await withFlags(
    '--iptables-masquerade-bit=7',
    '--masquerade-all',
    '--iptables-localhost-nodeports=false',
    '--nftables-localhost-nodeports',
    '--detect-local-mode=InterfaceNamePrefix',
    '--pod-interface-name-prefix=cali',
    '--conntrack-max=5000',
    '--conntrack-udp-timeout=90s',
    '--ipvs-exclude-cidrs=10.0.0.1/8',
    '--ipvs-strict-arp',
  )
  t.strictSame(kernel, {
    masqueradeAll: true,
    masqueradeBit: 7,
    // As with kube-proxy --iptables-masquerade-bit is for the other modes.
    nftables: {
      masqueradeAll: true,
      masqueradeBit: 14,
      localhostNodePorts: true,
      flowtableDevices: [],
    },
    localhostNodePorts: false,
    localPods: { by: 'interface prefix', prefix: 'cali' },
    conntrack: {
      maxPerCore: 32_768,
      min: 131_072,
      max: 5000,
      tcpEstablishedMs: 86_400_000,
      tcpCloseWaitMs: 3_600_000,
      tcpBeLiberal: false,
      udpMs: 90_000,
      udpStreamMs: 0,
    },
    ipvs: {
      scheduler: '',
      excludeCidrs: ['10.0.0.0/8'],
      strictArp: true,
      tcpTimeoutMs: 0,
      tcpFinTimeoutMs: 0,
      udpTimeoutMs: 0,
    },
  })
})

t.test('verbosity and format of the log follow kube-proxy’s flags', async t => {
  const level = async (...args: string[]) => (await withFlags(...args)).options.logLevel
  for (const v of ['0', '3']) t.equal(await level(`-v=${v}`), 'info')
  for (const v of ['4', '5']) t.equal(await level('-v', v), 'debug')
  for (const v of ['6', '10']) t.equal(await level(`--v=${v}`), 'trace')
  t.equal(await level('-v=9', '--log-level=warn'), 'warn')
  const format = async (...args: string[]) => (await withFlags(...args)).options.logFormat
  t.equal(await format(), 'auto')
  t.equal(await format('--logging-format=json'), 'json')
  t.equal(await format('--logging-format=text'), 'pretty')
  t.equal(await format('--logging-format=json', '--log-format=auto'), 'auto')
  t.equal((await withLines('logging: {format: json}')).options.logFormat, 'json')
})

t.test('kube-proxy’s old 250ms for UDP is not taken over from a file', async t => {
  for (const field of ['udpIdleTimeout', 'udpTimeoutMilliseconds']) {
    const old = await withLines(`${field}: 250ms`)
    t.equal(old.options.udpTimeout, 30_000)
    t.match(old.warnings, ["udpIdleTimeout 250ms is kube-proxy's old default"])
    t.equal((await withLines(`${field}: 2s`)).options.udpTimeout, 2000)
    t.equal((await withLines(`${field}: 0s`)).options.udpTimeout, 30_000)
    const asked = await withLines(`${field}: 250ms`, '--udp-timeout=250ms')
    t.strictSame([asked.options.udpTimeout, asked.warnings], [250, []])
  }
})

t.test('defaults of addresses follow the family of the bind address', async t => {
  const { configuration } = await withFlags('--bind-address=::', '--metrics-port=7')
  t.equal(configuration.healthzBindAddress, '[::]:10256')
  t.equal(configuration.metricsBindAddress, '[::1]:7')
})

t.test('Services come from manifests, or from the API server', async t => {
  t.equal((await withFlags('m.yaml')).cluster, undefined)
  t.match((await withFlags('--kubeconfig=k', '--kube-api-qps=1')).cluster, {
    kubeconfig: 'k',
    qps: 1,
  })
  t.match(await refusal(withFlags('m.yaml', '--kubeconfig=k')), /"m.yaml".*--kubeconfig/)
  const both = await withFile(golden('kubeadm.conf'), 'm.yaml')
  t.match(both.warnings, ['clientConnection.kubeconfig is not used'])
})

t.test('check takes the same, and is named in its errors', async t => {
  const good = await runSettings(['--config=c'], async () => head, 'check')
  // Besides it takes routes, as a sidecar does.
  const expected = await withLines('', '--config=c')
  t.strictSame(good, { ...expected, options: { ...expected.options, route: [] } })
  const bad = runSettings(['--config=c'], async () => `${head}mode: x`, 'check')
  const error: unknown = await bad.catch((reason: unknown) => reason)
  t.equal(error instanceof UsageError && error.command, 'check')
})

t.test('who is on this node follows detect-local-mode', async t => {
  const clients = async (...args: string[]) =>
    (await withFlags('--cluster-cidr=10.0.0.0/8', ...args)).localClients
  t.strictSame(await clients(), { clusterCidrs: ['10.0.0.0/8'], nodeCidrs: false })
  t.strictSame(await clients('--detect-local-mode=NodeCIDR'), {
    clusterCidrs: [],
    nodeCidrs: true,
  })
})

t.test('what is written reads back as the same configuration', async t => {
  // Not both forms of this one: that is refused.
  const all = fieldFlags.map(([flag]) => flag)
  const flags = fc.subarray(all.filter(flag => flag !== '--nodeport-addresses=primary'))
  await fc.assert(
    fc.asyncProperty(flags, async args => {
      const { configuration } = await withFlags(...args)
      const text = configurationYaml(configuration)
      const again = await withFile(text)
      t.strictSame(again.configuration, configuration, args.join(' '))
      t.equal(configurationYaml(again.configuration), text)
    }),
    { numRuns: 60 },
  )
})

t.test('keywords stand beside CIDRs, as with kube-proxy 1.37, and each once', async t => {
  const taken = async (...values: readonly string[]) =>
    refusal(withFlags(...values.map(value => `--nodeport-addresses=${value}`)))
  t.equal(await taken('primary', '127.0.0.1/32', 'localhost'), 'taken')
  t.match(await taken('all', '10.0.0.0/8', 'all'), /\[2\]: Duplicate value: "all"/)
})

t.test("the gate of kube-proxy 1.37 for loopback is Usher's own flag", async t => {
  const gate = '--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true,Other=true'
  const at = async (...flags: readonly string[]) => {
    const { kernel, warnings } = await withFlags('--proxy-mode=nftables', gate, ...flags)
    t.match(warnings.join(), /feature gates without effect: Other$/)
    return kernel.nftables.localhostNodePorts
  }
  t.equal(await at('--nodeport-addresses=primary,localhost'), true)
  t.equal(await at('--nodeport-addresses=127.0.0.1/32'), true)
  t.equal(await at('--nodeport-addresses=::1/128'), true)
  t.equal(await at('--nodeport-addresses=0.0.0.0/0'), false, 'named by itself only')
  t.equal(await at(), false, 'the default of nftables mode is primary')
  t.equal(
    await at('--nodeport-addresses=localhost', '--nftables-localhost-nodeports=false'),
    false,
    'the flag wins',
  )
  const { warnings } = await withFlags('--proxy-mode=iptables', gate)
  t.match(warnings.join(), /without effect: KubeProxyNFTablesLocalhostNodePorts, Other$/)
})

t.test('the gate of kube-proxy 1.37 for externalIPs, too', async t => {
  const at = async (...flags: readonly string[]) => {
    const { options, warnings } = await withFlags(...flags)
    t.notMatch(warnings.join(), 'AllowServiceExternalIPs')
    return options.externalIps
  }
  const off = '--feature-gates=AllowServiceExternalIPs=false'
  t.equal(await at(), true)
  t.equal(await at(off), false)
  t.equal(await at('--external-ips=false'), false)
  t.equal(await at('--external-ips', off), true, 'the flag wins')
})

t.test('fields are in alphabetical order, as kube-proxy writes them', async t => {
  t.strictSame(fieldPaths, [...fieldPaths].toSorted())
})

t.test('any file at all is taken or refused by a UsageError', async t => {
  const field = fc.constantFrom(...fieldPaths.map(path => path.split('.')[0] ?? ''))
  await fc.assert(
    fc.asyncProperty(fc.dictionary(field, fc.jsonValue()), async given => {
      const file = {
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        ...given,
      }
      await refusal(withFile(JSON.stringify(file)))
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.string(), async text => void (await refusal(withFile(text)))),
  )
  t.pass()
})
