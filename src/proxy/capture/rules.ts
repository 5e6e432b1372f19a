import type { Capture } from '../../capture/capture.ts'
import { KeptAddresses } from '../../capture/kept-addresses.ts'
import { listenCapture } from '../../capture/listen.ts'
import { interfaceAddresses } from '../../capture/local-addresses.ts'
import { RuleCapture } from '../../capture/rule-capture.ts'
import type { RuleTables } from '../../capture/rule-table.ts'
import { conntrackCleaner } from '../../kernel/conntrack.ts'
import { Families } from '../../kernel/keeper/families.ts'
import { type FamilyProbes, whyUnusable } from '../../kernel/probe.ts'
import { udpVipsLeft } from '../../kernel/vips-left.ts'
import { runTool } from '../../kernel/run-tool.ts'
import { repairLog, captureLog } from '../../observe/rule-log.ts'
import { type CaptureDeps, probeRules, withOtherTables } from './host-system.ts'
import { proxyAddressOf, proxyCidrOf } from '../../kernel/proxy-address.ts'
import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'

/** A capture by rules of the kernel's, in the families that can have them. */
export const rulesCapture = (
  deps: CaptureDeps,
  tables: RuleTables,
  probes: FamilyProbes,
): Capture => {
  const { options, clock, log, system, facts } = deps
  const { nodePortCidrs } = facts
  const families = new Families({
    clock,
    resync: deps.resync,
    object: `capture ${tables.name}`,
    unusable: whyUnusable(probes),
    probe: family => probeRules(system, tables, family),
  })
  const listen = listenCapture({
    mode: 'none',
    proxyKind: tables.name,
    proxyAddress: family => {
      const reason = families.whyNot(family)
      return reason === '' ? { address: proxyAddressOf[family] } : { reason }
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
    repaired: repairLog(log, 'addresses'),
    resync: deps.resync,
  })
  const said = captureLog(log, tables.name)
  return new RuleCapture({
    clock,
    tables,
    families,
    proxyAddress: family => proxyAddressOf[family],
    listen,
    prepare: family => kept.take(proxyCidrOf[family]),
    holdOthers: async () => {
      const left = await withOtherTables(deps, tables.name, 'hold', '')
      for (const one of left) log.warn({ ...one }, 'old rules may still be there')
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
