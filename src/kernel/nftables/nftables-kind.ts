import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { Monitor, type SpawnMonitor, spawnMonitor } from '../nft/monitor.ts'
import { localPacketProbe, type PacketProbe } from '../nft/packet-probe.ts'
import { isProbeTable, servicesTableName, tableOf } from '../nft/tables.ts'
import type { ProxierKind, ProxierObserver } from '../proxier.ts'
import type { RunTool } from '../run-tool.ts'
import type { Form } from './context.ts'
import { NftablesProxier } from './nftables-proxier.ts'
import { probeForms } from './probe.ts'

export interface NftablesKindDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly observer: ProxierObserver
  /** By default a child process in this process's network namespace. */
  readonly spawnMonitor?: SpawnMonitor
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
  const monitor = new Monitor({
    clock,
    spawn: deps.spawnMonitor ?? spawnMonitor,
    table: servicesTableName,
  })
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
