import { nodePortCidrs } from '../kernel/node-port-cidrs.ts'
import { Registry } from '../model/registry.ts'
import type { Snapshot } from '../model/snapshot.ts'
import { buildStatusDocument } from '../observe/status-document.ts'
import type { Source } from '../source/source.ts'
import { systemClock } from '../util/clock.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'
import type { CaptureFacts } from './capture/capture-options.ts'
import { familyOf, ipFamilies } from '../util/ip.ts'
import { createAdmin } from './admin.ts'
import { type Control, createControl } from './control.ts'
import { type NodeParts, noNode, type ProxyDeps, type RunningProxy } from './options.ts'
import { notListening } from './not-listening.ts'
import { startServers } from './servers.ts'
import { createTraffic } from './traffic.ts'
import { nodeAddresses } from '../capture/local-addresses.ts'

/**
 * Puts the parts together and starts them: source -> registry -> snapshots -> runner ->
 * mode (capture + relay, or the kernel's rules), with log, metrics, health and status
 * beside them. Resolves when the servers listen; the first state of the source comes with
 * `ready`.
 */
export const startProxy = async (deps: ProxyDeps): Promise<RunningProxy> => {
  const { source, options, log, node = noNode } = deps
  const { clock = systemClock, random = Math.random } = deps
  const { emit = () => {} } = node
  let draining = false

  const registry = new Registry({ nodeName: node.nodeName, startedAt: Date.now() })
  const facts: CaptureFacts = {
    podCidrs: () => podCidrsOf(node, registry),
    serviceCidrs: () => registry.serviceCIDRs(),
    nodeAddresses: () => primaryAddresses(registry.node()?.addresses ?? []),
  }
  const tell = nodeTeller(node)
  const failed = (reason: string, message: string) => tell('Warning', reason, message)
  const traffic = await createTraffic({
    options,
    clock,
    random,
    log,
    facts,
    resync: () => control.reconciler.resync(),
    fellBack: message => failed('ProxyModeFallback', message),
  })
  const { mode } = traffic
  const control: Control = createControl({
    periods: options.periods(mode.name),
    clock,
    log,
    registry,
    traffic,
    healthCheckAddresses: family => {
      const values = options.nodePortAddresses ?? []
      const cidrs = nodePortCidrs(values, facts.nodeAddresses())(family)
      if (cidrs === undefined) return undefined
      const vips = vipsOf(control.reconciler.snapshots())
      return nodeAddresses(family, vips).filter(inSome(cidrs))
    },
    sourceSynced: () => source.status().synced,
    emit,
  })
  const { reconciler } = control
  const { version } = options
  const isDraining = () => draining
  const admin = createAdmin({
    version,
    source,
    node,
    registry,
    traffic,
    control,
    isDraining,
  })
  const servers = await startServers(options, admin.routes, { log, clock, failed }).catch(
    async (error: unknown) => {
      admin.metrics.close()
      await Promise.all([control.close(), node.close?.(), traffic.close()])
      throw error
    },
  )

  const stop = async (): Promise<void> => {
    reconciler.close()
    await source.close()
  }
  const close = async (): Promise<void> => {
    await Promise.all([stop(), node.close?.()])
    await traffic.close().catch((err: unknown) => {
      log.error({ err }, 'not everything could be removed; usher cleanup does it')
    })
    await control.close()
    admin.metrics.close()
    await Promise.all([servers.metrics?.close(), servers.health?.close()])
  }
  tell('Normal', 'Starting', '')
  return {
    ready: firstState(source, control, close),
    status: () => buildStatusDocument(admin.statusInput()),
    look: () => admin.look(),
    summary: () => ({
      servicePorts: reconciler
        .snapshots()
        .reduce((sum, { servicePorts }) => sum + servicePorts.size, 0),
      problems: control.problems().length,
    }),
    notListening: () => notListening(traffic),
    metricsAddress: () => servers.metrics?.address() ?? '',
    healthzAddress: () => servers.health?.address() ?? '',
    reload: () => source.reload(),
    drain: async ms => {
      draining = true
      await stop()
      return mode.drain(ms)
    },
    close,
  }
}

const inSome = (texts: readonly string[]): ((address: string) => boolean) => {
  const cidrs = texts.flatMap(text => parseCidr(text) ?? [])
  return address => cidrs.some(cidr => cidrContains(cidr, address))
}

/** All that a capture may have put on this host. */
const vipsOf = (snapshots: readonly Snapshot[]): ReadonlySet<string> =>
  new Set(
    snapshots.flatMap(({ servicePorts }) =>
      [...servicePorts.values()].flatMap(({ vips }) =>
        vips.map(({ address }) => address),
      ),
    ),
  )

/** The first of each family: the Node lists what it goes by first. */
const primaryAddresses = (addresses: readonly string[]): readonly string[] =>
  ipFamilies.flatMap(family => addresses.find(one => familyOf(one) === family) ?? [])

const podCidrsOf = (node: NodeParts, registry: Registry): readonly string[] => [
  ...node.clusterCidrs,
  ...(node.nodeCidrs ? (registry.node()?.podCIDRs ?? []) : []),
]

/** Resolves when the source's first state is served; ends everything when it can't be had. */
const firstState = (
  source: Source,
  { reconciler }: Control,
  close: () => Promise<void>,
): Promise<void> => {
  const start = async (): Promise<void> => {
    try {
      await source.start(reconciler)
      // A source that was closed before it had anything never will have.
      if (source.status().synced) await reconciler.firstSync
    } catch (error) {
      await close()
      throw error
    }
  }
  const ready = start()
  // Whoever waits for it hears of a failure; nobody has to.
  ready.catch(() => {})
  return ready
}

/** Events about the Node itself. */
const nodeTeller =
  ({ nodeName, emit = () => {} }: NodeParts) =>
  (type: 'Normal' | 'Warning', reason: string, message: string): void =>
    emit({
      type,
      reason,
      action: 'StartKubeProxy',
      message,
      regarding: { kind: 'Node', name: nodeName, namespace: '' },
    })
