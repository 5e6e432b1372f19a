import type { Capture } from '../../capture/capture.ts'
import { KeptAddresses } from '../../capture/kept-addresses.ts'
import { listenCapture } from '../../capture/listen.ts'
import { interfaceAddresses } from '../../capture/local-addresses.ts'
import { RuleCapture } from '../../capture/rule-capture.ts'
import type { RuleTables } from '../../capture/rule-table.ts'
import { conntrackCleaner } from '../../kernel/conntrack.ts'
import { udpVipsLeft } from '../../kernel/vips-left.ts'
import type { FamilyProbes } from '../../kernel/probe.ts'
import { runTool } from '../../kernel/run-tool.ts'
import { addressLog, captureLog } from '../../observe/rule-log.ts'
import type { IpFamily } from '../../util/ip.ts'
import { withOtherTables, type CaptureDeps, familiesWhere } from './host-system.ts'
import { proxyAddressOf, proxyCidrOf } from '../../kernel/proxy-address.ts'
import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'

/** A capture by rules of the kernel's, in the families that can have them. */
export const rulesCapture = (
  deps: CaptureDeps,
  tables: RuleTables,
  probes: FamilyProbes,
): Capture => {
  const { options, clock, log, system, facts } = deps
  const usable = familiesWhere(probes, ({ usable: is }) => is)
  // With none it was asked for by name: it is tried again and again, and says why not.
  const families: readonly IpFamily[] = usable.length > 0 ? usable : ['IPv4']
  const { nodePortCidrs } = facts
  const listen = listenCapture({
    mode: 'none',
    proxyKind: tables.name,
    proxyAddress: family =>
      families.includes(family)
        ? { address: proxyAddressOf[family] }
        : {
            reason: `${tables.name} does not work for ${family}: ${probes[family].detail}`,
          },
    proxyPortRange: options.proxyPortRange,
    localAddresses: deps.localAddresses,
    proxyPorts: deps.proxyPorts,
    nodePortCidrs,
  })
  const conntrack = conntrackCleaner({
    clock,
    proxyAddress: family => proxyAddressOf[family],
    ownAddresses: interfaceAddresses,
    nodePortCidrs,
    failed: why =>
      why === ''
        ? log.info({}, 'stale UDP flows can be ended again')
        : log.warn(
            { why },
            'stale UDP flows go on where they went: they cannot be ended',
          ),
  })
  const kept = new KeptAddresses({
    addresses: system.addresses,
    wanted: families.map(family => proxyCidrOf[family]),
    repaired: addressLog(log),
  })
  const said = captureLog(log, tables.name)
  return new RuleCapture({
    clock,
    tables,
    proxyAddresses: new Map(families.map(family => [family, proxyAddressOf[family]])),
    listen,
    prepare: async () => {
      await kept.take()
      await withOtherTables(deps, tables.name, table => table.hold())
    },
    release: keep => kept.release(keep),
    nodePortCidrs,
    podCidrs: facts.podCidrs,
    forgetWaiting: family => forgetWaiting(runTool, family),
    conntrack,
    // Beside a kernel mode it would be that one's own.
    left: async family => (deps.isBesideKernelMode ? [] : udpVipsLeft(runTool, family)),
    keepRules: options.keepRules ?? false,
    resync: deps.resync,
    observers: [deps.metrics, said],
    failed: (what, why) => said.failed(what, why),
  })
}
