import type { Clock } from '../../util/clock.ts'
import type { IpFamily, AddressPort } from '../../util/ip.ts'
import { Monitor, type SpawnMonitor, spawnMonitor } from '../nft/monitor.ts'
import { localPacketProbe, type PacketProbe, probeTables } from '../nft/packet-probe.ts'
import { isProbeTable, servicesTableName, tableName, tableOf } from '../nft/tables.ts'
import {
  type ProxierKind,
  type ProxierObserver,
  type KernelSettings,
  plainSettings,
} from '../proxier.ts'
import type { RunTool } from '../run-tool.ts'
import type { Form } from './compile.ts'
import { NftablesProxier } from './nftables-proxier.ts'
import type { ServicePort, Snapshot } from '../../model/snapshot.ts'
import {
  type Probe,
  endpointElsewhere,
  probedServicePort,
  sampleServicePorts,
} from '../probe.ts'

export interface NftablesKindDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly observer: ProxierObserver
  /** By default one of its own: a child process in this process's network namespace. */
  readonly monitor?: Monitor
  /** By default sockets in this process's network namespace. */
  readonly packetProbe?: PacketProbe
}

/**
 * Services by `nft`, from nftables 1.0.1 and Linux 5.13 on: a table `usher-services` in the
 * families ip and ip6. What it writes is not what kube-proxy's nftables mode does, and means the
 * same: two maps for all Services, in place of one for each.
 */
export const nftablesKind = (deps: NftablesKindDeps): ProxierKind => {
  const { run, clock } = deps
  const monitor = deps.monitor ?? servicesMonitor({ clock })
  const packetProbe = deps.packetProbe ?? localPacketProbe(clock)
  const proven = new Map<IpFamily, Form>()
  return {
    name: 'nftables',
    probe: async family => {
      const { form, ...probe } = await probeForms(family, {
        run,
        clock,
        monitor,
        packetProbe,
      })
      proven.set(family, form)
      return probe
    },
    proxier: family =>
      new NftablesProxier(family, {
        ...deps,
        monitor,
        table: tableOf(family, servicesTableName),
        form: () => proven.get(family) ?? 'shared',
      }),
    owns: {
      chain: () => false,
      nftablesTable: name => name === servicesTableName || isProbeTable(name),
      ipvs: false,
    },
  }
}

/** Of the tables that lead to endpoints or the relay, and of what keeps the relay's address. */
export const servicesMonitor = ({
  clock,
  spawn = spawnMonitor,
}: {
  readonly clock: Clock
  readonly spawn?: SpawnMonitor | undefined
}): Monitor => new Monitor({ clock, spawn, tables: [servicesTableName, tableName] })

interface ProbeDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  readonly packetProbe: PacketProbe
}

/** The form is that which was found to work. */
interface FormProbe extends Probe {
  readonly form: Form
}

const withOwnMaps = ', with a map for each Service: large clusters take long'

/**
 * Has a table as the mode would have, under another name, lead a connection, changes it as
 * Services change, and takes it out. Never rejects.
 */
export const probeForms = async (
  family: IpFamily,
  deps: ProbeDeps,
): Promise<FormProbe> => {
  const tryIt = (form: Form): Promise<Probe> =>
    probeTables(deps.run, family, table => tryForm(family, form, table, deps))
  const shared = await tryIt('shared')
  if (shared.usable) return { ...shared, form: 'shared' }
  const { usable, detail } = await tryIt('own')
  return { usable, detail: `${detail}${usable ? withOwnMaps : ''}`, form: 'own' }
}

const tryForm = (
  family: IpFamily,
  form: Form,
  table: string,
  { run, clock, monitor, packetProbe }: ProbeDeps,
): Promise<boolean | undefined> => {
  const observer = { restoreFailed: () => {}, failed: () => {} }
  const deps = { run, clock, monitor, observer, table, form: () => form }
  const proxier = new NftablesProxier(family, deps)
  return packetProbe(family, async (from, to) => {
    const settings = settingsOf(family)
    const before = sampleServicePorts(family, unused[family])
    await proxier.sync(snapshotOf(family, before), settings)
    // Once more as a whole, as when settings change.
    const unmarked = { ...settings, localDetector: { by: 'none' } } as const
    await proxier.sync(snapshotOf(family, before), unmarked)
    // Then a Service comes, with another number of endpoints.
    const after = [...before, led(family, from, to)]
    await proxier.sync(snapshotOf(family, after), unmarked)
  })
}

/** Of RFC 5737 and RFC 3849: addresses for documentation, so that nothing real is hit. */
const unused = { IPv4: '192.0.2.1', IPv6: '2001:db8::1' } as const

const settingsOf = (family: IpFamily): KernelSettings => {
  const cidrs = [`${unused[family]}/${family === 'IPv4' ? 32 : 128}`]
  return {
    ...plainSettings,
    nodePortCidrs: cidrs,
    localDetector: { by: 'source', cidrs },
    serviceCidrs: cidrs,
  }
}

export const snapshotOf = (family: IpFamily, all: readonly ServicePort[]): Snapshot => ({
  family,
  servicePorts: new Map(all.map(one => [one.key, one])),
  healthChecks: new Map(),
})

/**
 * The one that a connection is to follow, by the way of outside clients: the node's own are
 * masqueraded, and IPv4's loopback has no address for that.
 */
const led = (family: IpFamily, from: AddressPort, to: AddressPort): ServicePort => ({
  ...probedServicePort(family, 'led', [endpointElsewhere(to)]),
  vips: [{ kind: 'ExternalIP', ...from }],
  externalTrafficPolicy: 'Local',
  externalFromNode: { verdict: 'drop', endpoints: [] },
})
