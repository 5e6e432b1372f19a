import t from 'tap'
import type { KernelOptions } from '../../../src/mode/mode.ts'
import {
  type KernelFacts,
  kernelSettings,
} from '../../../src/proxy/kernel/kernel-step.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { kernelOptions } from './kernel-options.ts'

const facts: KernelFacts = {
  nodeName: 'node-1',
  podCidrs: () => [],
  serviceCidrs: () => ['10.96.0.0/12', 'fd10:96::/112'],
  nodePortCidrs: () => ['192.0.2.0/24'],
}

const detector = (
  localPods: KernelOptions['localPods'],
  podCidrs: readonly string[],
  family: IpFamily = 'IPv4',
) =>
  kernelSettings(
    'iptables',
    kernelOptions({ localPods }),
    { ...facts, podCidrs: () => podCidrs },
    family,
  ).localDetector

t.test('pods of this node are known by CIDRs of the family, canonical', async t => {
  const cidrs = ['10.1.2.3/16', 'fd00:1::5/64', '10.2.0.0/16']
  t.strictSame(detector({ by: 'cidrs' }, cidrs), {
    by: 'source',
    cidrs: ['10.1.0.0/16', '10.2.0.0/16'],
  })
  t.strictSame(detector({ by: 'cidrs' }, cidrs, 'IPv6'), {
    by: 'source',
    cidrs: ['fd00:1::/64'],
  })
  t.strictSame(detector({ by: 'cidrs' }, ['10.1.0.0/16'], 'IPv6'), { by: 'none' })
})

t.test('or by their interfaces, whatever CIDRs there are', async t => {
  const bridge = { by: 'bridge', name: 'cni0' } as const
  t.strictSame(detector(bridge, ['10.1.0.0/16']), bridge)
  const prefix = { by: 'interface prefix', prefix: 'veth' } as const
  t.strictSame(detector(prefix, []), prefix)
})

t.test('the node’s addresses are those of its interfaces but loopback', async t => {
  const settings = kernelSettings('iptables', kernelOptions(), facts, 'IPv4')
  t.notOk(settings.nodeAddresses.some(address => address.startsWith('127.')))
  t.strictSame(settings.nodeAddresses, settings.nodeAddresses.toSorted())
  t.strictSame(settings.nodePortCidrs, ['192.0.2.0/24'])
  t.strictSame(settings.serviceCidrs, ['10.96.0.0/12'], 'those of the family')
})

t.test('nftables mode has a mark of its own', async t => {
  const options = kernelOptions({
    nftables: {
      masqueradeAll: true,
      masqueradeBit: 20,
      localhostNodePorts: false,
      flowtableDevices: [],
    },
  })
  t.match(kernelSettings('nftables', options, facts, 'IPv4'), {
    masqueradeAll: true,
    masqueradeBit: 20,
  })
  t.match(kernelSettings('iptables', options, facts, 'IPv4'), {
    masqueradeAll: false,
    masqueradeBit: 14,
  })
})
