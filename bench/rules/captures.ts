import { iptablesTables } from '../../src/capture/iptables/iptables.ts'
import { LocalAddresses } from '../../src/capture/local-addresses.ts'
import { LocalCapture } from '../../src/capture/local/local-capture.ts'
import { nftablesTables } from '../../src/capture/nftables/nftables.ts'
import type { Capture, Placement } from '../../src/capture/capture.ts'
import { RuleCapture } from '../../src/capture/rule-capture.ts'
import type { RuleTables } from '../../src/capture/rule-table.ts'
import { Families } from '../../src/kernel/keeper/families.ts'
import { LinuxHostAddresses } from '../../src/kernel/host-addresses/linux.ts'
import type { RunTool } from '../../src/kernel/run-tool.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { proxyAddressOf } from '../../src/kernel/proxy-address.ts'

/** What is measured: a name, and the capture as Usher has it. */
export interface Measured {
  readonly name: string
  readonly make: (run: RunTool) => Capture
}

const onlyIpv4 = new Families({
  clock,
  object: '',
  unusable: new Map([['IPv6', 'not measured']]),
  probe: async () => ({ usable: false, detail: 'not measured' }),
  resync: () => {},
})

const byRules = (tables: RuleTables): Capture => {
  const known = new WeakMap<ServicePort, Placement>()
  return new RuleCapture({
    clock,
    tables: { ...tables, table: family => unwatched(tables.table(family)) },
    families: onlyIpv4,
    proxyAddress: () => proxyAddressOf.IPv4,
    listen: { place: async servicePorts => servicePorts.map(placedIn(known)) },
    prepare: async () => {},
    applied: async () => {},
    removeOthers: async () => {},
    holdOthers: async () => {},
    release: async () => {},
    nodePortCidrs: () => undefined,
    podCidrs: () => ['10.244.0.0/16'],
    forgetWaiting: async () => undefined,
    conntrack: { forgetFlows: async () => 0, problem: '' },
    left: async () => [],
    keepRules: false,
    resync: () => {},
    observers: [],
    failed: () => {},
  })
}

/** What looks for damage would be counted with what is measured. */
const unwatched = (table: ReturnType<RuleTables['table']>): typeof table => {
  table.watch = () => () => {}
  return table
}

/** Sockets are not what is measured. What did not change is placed as before. */
const placedIn =
  (known: WeakMap<ServicePort, Placement>) =>
  (servicePort: ServicePort, i: number): Placement => {
    const placement = known.get(servicePort) ?? onProxyPort(servicePort, i)
    known.set(servicePort, placement)
    return placement
  }

const onProxyPort = (servicePort: ServicePort, i: number): Placement => ({
  servicePort,
  listenerId: servicePort.key,
  vips: servicePort.vips.map(vip => ({
    vip,
    capture: 'nftables',
    binds: [{ address: proxyAddressOf.IPv4, port: 10_000 + (i % 50_000) }],
    reason: '',
  })),
})

/** Each VIP a route of its own: the dearer of the two ways. */
const local = (run: RunTool): Capture =>
  new LocalCapture({
    hostAddresses: new LinuxHostAddresses({ run, clock, families: ['IPv4'] }),
    localAddresses: new LocalAddresses(clock, async () => true),
    serviceCidrs: () => [],
    keepRules: false,
    repaired: () => {},
    clock,
    resync: () => {},
  })

export const measuredCaptures: readonly Measured[] = [
  { name: 'nftables', make: run => byRules(nftablesTables({ run, clock })) },
  {
    name: 'iptables (nft)',
    make: run => byRules(iptablesTables({ run, clock, backend: 'nft' })),
  },
  {
    name: 'iptables (legacy)',
    make: run => byRules(iptablesTables({ run, clock, backend: 'legacy' })),
  },
  { name: 'local', make: local },
]
