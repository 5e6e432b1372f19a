import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { ModeName, ConntrackOptions, KernelOptions } from '../../../src/mode/mode.ts'
import {
  onlineProcessors,
  wantedSysctls,
} from '../../../src/proxy/kernel/wanted-sysctls.ts'
import { kernelOptions } from './kernel-options.ts'

const wanted = (
  options: Partial<KernelOptions>,
  mode: ModeName = 'iptables',
  nodePortCidrs?: readonly string[],
) =>
  wantedSysctls(kernelOptions(options), { mode, cores: 8, nodePortCidrs })
    .filter(({ guarded }) => guarded !== 'shut')
    .map(({ name, value }) => `${name}=${value}`)

const conntrack = (over: Partial<ConntrackOptions>) => ({
  conntrack: { ...kernelOptions().conntrack, ...over },
})

t.test('node ports on 127.0.0.1 need route_localnet, in iptables mode', async t => {
  const routed = ['net/ipv4/conf/all/route_localnet=1']
  t.strictSame(wanted({}), routed)
  t.strictSame(wanted({}, 'ipvs'), [])
  t.strictSame(wanted({ localhostNodePorts: false }), [])
  t.strictSame(wanted({}, 'iptables', ['192.0.2.0/24']), [])
  for (const cidr of ['127.0.0.0/8', '127.0.0.5/32', '0.0.0.0/1'])
    t.strictSame(wanted({}, 'iptables', ['192.0.2.0/24', cidr]), routed, cidr)
})

t.test('conntrack is as large as cores need, as kube-proxy reckons it', async t => {
  const none = { localhostNodePorts: false }
  const size = (over: Partial<ConntrackOptions>) =>
    wanted({ ...none, ...conntrack(over) }).map(one => one.replace(/^.*\//, ''))
  t.strictSame(size({ maxPerCore: 32_768, min: 131_072 }), [
    'nf_conntrack_max=262144',
    'hashsize=65536',
  ])
  const raised = wantedSysctls(
    kernelOptions({ ...none, ...conntrack({ maxPerCore: 10, min: 1 }) }),
    { mode: 'ipvs', cores: 1, nodePortCidrs: undefined },
  )
  t.ok(
    raised.every(({ atLeast, guarded }) => atLeast || guarded === 'shut'),
    'it is never made smaller',
  )
  t.strictSame(size({ maxPerCore: 10, min: 131_072 })[0], 'nf_conntrack_max=131072')
  t.strictSame(size({ maxPerCore: 0, min: 131_072 }), [], 'zero leaves it alone')
  t.strictSame(size({ maxPerCore: 10, min: 1, max: 77 })[0], 'nf_conntrack_max=77')
  t.strictSame(size({ maxPerCore: 1e6, min: 1 })[0], 'nf_conntrack_max=1048576')
})

t.test('times of conntrack are whole seconds, and zero leaves them alone', async t => {
  const none = { localhostNodePorts: false }
  t.strictSame(
    wanted({
      ...none,
      ...conntrack({
        tcpEstablishedMs: 86_400_000,
        tcpCloseWaitMs: 1500,
        tcpBeLiberal: true,
        udpMs: 10,
      }),
    }).map(one => one.replace('net/netfilter/nf_conntrack_', '')),
    [
      'tcp_timeout_established=86400',
      'tcp_timeout_close_wait=1',
      'tcp_be_liberal=1',
      'udp_timeout=1',
    ],
  )
})

t.test("processors are the host's, not those of this process's cpuset", async t => {
  const path = join(t.testdir(), 'online')
  const counts = { '0': 1, '0-3': 4, '0-3,8-11,15\n': 9 }
  for (const [text, count] of Object.entries(counts)) {
    writeFileSync(path, text)
    t.equal(onlineProcessors(path), count, text)
  }
  for (const odd of ['', '3-1', 'all']) {
    writeFileSync(path, odd)
    t.equal(onlineProcessors(path), availableParallelism(), `'${odd}'`)
  }
  t.equal(onlineProcessors(join(path, 'none')), availableParallelism())
})
