import { anywhere } from '../kernel/probe.ts'
import { type ModeChoice, type ModeStep, FallbackMode } from '../mode/fallback-mode.ts'
import { HybridMode } from '../mode/hybrid-mode.ts'
import { kernelModeNames, type Mode, type ModeName } from '../mode/mode.ts'
import { type BoundMetric, bindMetrics } from '../observe/exposition.ts'
import { modeTable } from '../observe/metrics-table.ts'
import {
  captureTable,
  countedTable,
  kernelTables,
  loopbackTable,
} from '../observe/rule-metrics-table.ts'
import { hostCounters } from '../kernel/iptables/packet-counters.ts'
import { RuleMetrics } from '../observe/rule-metrics.ts'
import { accessLogMetrics, relayInfoMetrics } from '../observe/relay-metrics.ts'
import { createDataPath, type DataPath } from './data-path.ts'
import { kernelKinds, kernelStep } from './kernel/kernel-step.ts'
import type { ProxyOptions, Shared } from './options.ts'
import type { CaptureChoice } from '../capture/capture.ts'
import type { FallBack } from '../kernel/keeper/fallback.ts'
import type { Log, LogFields } from '../observe/log.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { RelayLimits } from '../relay/relay.ts'
import type { Snapshot } from '../model/snapshot.ts'
import type { PassedOver } from '../util/selection.ts'

export interface TrafficDeps extends Shared {
  /** Sends an Event about the mode that runs. */
  readonly event: (reason: string, message: string) => void
}

/** What carries the traffic. */
export interface Traffic {
  readonly mode: Mode
  /** What runs now, and why so. */
  readonly choice: () => ModeChoice
  /** Relay and capture, where userspace is what runs, or Services of nftables mode ask for them. */
  readonly dataPath: () => DataPath | undefined
  /** The same, and made where Services of these ask for it in a kernel mode. Rejects where it does not start. */
  readonly openDataPath: (snapshots: readonly Snapshot[]) => Promise<DataPath | undefined>
  /** Metrics of what runs now. */
  readonly metrics: () => readonly BoundMetric[]
  /** Ends everything at once; rejects when something stayed in the system. */
  readonly close: () => Promise<void>
}

/**
 * Takes the mode that is asked for, or the best that works here. Rejects when userspace is
 * taken, and a capture or relay that was asked for by name does not work.
 */
export const createTraffic = async (deps: TrafficDeps): Promise<Traffic> => {
  const { options, log, event } = deps
  const fellBack = (message: string) => event('ProxyModeFallback', message)
  const { mode: request = { mode: 'userspace', by: '' } } = options
  // Apart, so that after a fallback what failed is not told of the mode that runs.
  const metrics = metricsOfModes()
  let dataPath: DataPath | undefined
  let hybrid: HybridMode | undefined
  let isRunning = false
  let fallBacks = 0
  const userspace: ModeStep = {
    name: 'userspace',
    probe: async () => anywhere,
    start: async (_, before) => {
      dataPath = await createDataPath(
        { ...deps, options: isRunning ? withAnyRelay(options) : options },
        { before },
      )
      logCapture(log, dataPath.captureChoice())
      logRelay(log, dataPath.relayChoice, options)
      return dataPath.mode
    },
  }
  const mode = await FallbackMode.start({
    request,
    steps: [
      ...kernelSteps(deps, metrics, () => hybrid?.hasRelayed ?? false).map(step =>
        step.name === 'nftables'
          ? withRelay(deps, step, {
              made: one => (hybrid = one),
              opened: path => (dataPath = path),
            })
          : step,
      ),
      userspace,
    ],
    fellBack: change => {
      fallBacks += 1
      // That of Services that asked for it has ended with the mode.
      if (change.to !== 'userspace') dataPath = undefined
      hybrid = undefined
      logFallback(log, change)
      fellBack(fallBackText(change))
    },
    failed: err => log.warn({ err }, 'the previous mode could not be shut down cleanly'),
  })
  isRunning = true
  // Elsewhere than on a node there is one, and no word of kube-proxy's.
  if (options.mode !== undefined) logMode(log, mode.choice)
  const { choice } = mode
  const counters = hostCounters()
  if (isFallBack(choice)) fellBack(choiceText(choice))
  const warning = modeWarning(choice)
  if (warning !== undefined) {
    log.warn({}, warning.message)
    event(warning.reason, warning.message)
  }
  return {
    mode,
    choice: () => mode.choice,
    dataPath: () => dataPath,
    openDataPath: async snapshots => {
      await hybrid?.openRelay(snapshots)
      return dataPath
    },
    metrics: () => [
      ...bindMetrics(modeTable, { mode: mode.name, fallBacks }),
      ...bindMetrics(kernelTables[mode.name], metrics[mode.name]),
      ...(mode.name === 'iptables' ? bindMetrics(countedTable, counters) : []),
      ...(mode.name === 'nftables' && options.kernel?.nftables.localhostNodePorts
        ? bindMetrics(loopbackTable, {
            placements: mode.placements,
            failingBinds: dataPath?.connectionLog.failingBinds,
          })
        : []),
      ...(dataPath
        ? [
            // Beside endpoints the mode's own rules are the capture's.
            ...bindMetrics(
              captureTable,
              mode.name === 'nftables' ? metrics.nftables : dataPath.captureMetrics,
            ),
            ...bindMetrics(relayInfoMetrics, dataPath.relayChoice),
            ...bindMetrics(accessLogMetrics, dataPath.accessLog),
          ]
        : []),
    ],
    close: () => mode.close(),
  }
}

interface HybridPart {
  readonly made: (mode: HybridMode) => void
  readonly opened: (dataPath: DataPath) => void
}

/** Services that ask for it are carried by a relay; it is made when there is one. */
const withRelay = (
  deps: TrafficDeps,
  step: ModeStep,
  { made, opened }: HybridPart,
): ModeStep => ({
  ...step,
  start: async (probes, before) => {
    const { options, log } = deps
    const { localhostNodePorts = false } = options.kernel?.nftables ?? {}
    let path: DataPath | undefined
    const mode = new HybridMode({
      kernel: await step.start(probes, before),
      localhostNodePorts,
      startRelay: async () => {
        path = await createDataPath(
          { ...deps, options: besideKernelMode(options) },
          { isBesideKernelMode: true },
        )
        logRelay(log, path.relayChoice, options)
        opened(path)
        return path.mode
      },
      isHeir: () => path?.isHeir() ?? false,
      sleep: ms => new Promise(resolve => deps.clock.setTimeout(resolve, ms).unref?.()),
      failed: err =>
        log.error(
          { err },
          'Services that the relay served could not be handed over to the kernel: new clients are not served until another mode runs or Usher is restarted',
        ),
    })
    made(mode)
    return mode
  },
})

/** nft works here, as the mode runs; the kernel's rules serve when the relay ends. */
const besideKernelMode = (options: ProxyOptions): ProxyOptions => ({
  ...withAnyRelay(options),
  capture: 'nftables',
  keepRules: false,
})

/** After a fallback any relay is better than none, also where one was asked for by name. */
const withAnyRelay = (options: ProxyOptions): ProxyOptions =>
  options.relay === 'linux' ? { ...options, relay: 'auto' } : options

type ModeMetrics = Readonly<Record<ModeName, RuleMetrics>>

const metricsOfModes = (): ModeMetrics => ({
  nftables: new RuleMetrics(),
  iptables: new RuleMetrics(),
  ipvs: new RuleMetrics(),
  userspace: new RuleMetrics(),
})

const kernelSteps = (
  { options, clock, log, facts, resync }: TrafficDeps,
  metrics: ModeMetrics,
  hasRelay: () => boolean,
): readonly ModeStep[] => {
  const { version, kernel } = options
  if (kernel === undefined) return []
  const common = { clock, log, version, options: kernel, facts, resync, hasRelay }
  const kinds = kernelKinds(clock, kernel)
  return kernelModeNames.map(name =>
    kernelStep(name, { ...common, metrics: metrics[name] }, kinds[name]),
  )
}

const reasons = (
  detail: string,
  passedOver: readonly PassedOver[],
): Pick<LogFields, string> => ({
  ...(detail !== '' && { detail }),
  ...(passedOver.length > 0 && {
    passedOver: Object.fromEntries(passedOver.map(one => [one.name, one.detail])),
  }),
})

/** Whether another mode runs than the one that was asked for. */
export const isFallBack = ({ mode, name }: ModeChoice): boolean =>
  mode !== '' && mode !== name

/** Which mode runs, and why not another. People look for kube-proxy's words. */
export const logMode = (log: Log, choice: ModeChoice): void => {
  const { name, by, detail, passedOver } = choice
  log[isFallBack(choice) ? 'warn' : 'info'](
    { mode: name, ...(by !== '' && { askedBy: by }), ...reasons(detail, passedOver) },
    `Using ${name} Proxier`,
  )
}

/** Where kube-proxy warns of a mode (server_linux.go of 1.37): an Event's reason and text. */
export const modeWarning = ({
  mode,
  by,
  name,
}: ModeChoice): { readonly reason: string; readonly message: string } | undefined => {
  if (mode === '' && by === '' && name === 'iptables')
    return {
      reason: 'KubeProxyDefaultMode',
      message:
        'no proxy mode is configured; using iptables, like kube-proxy. From Kubernetes 1.40 on the default is nftables; to stay with iptables set --proxy-mode iptables, or mode: iptables in the configuration file',
    }
  if (name === 'ipvs')
    return {
      reason: 'IPVSDeprecation',
      message:
        'kube-proxy deprecates ipvs mode: disabled by default from Kubernetes 1.40 on, removed in 1.43. Usher keeps it; to be able to go back to kube-proxy, migrate to --proxy-mode nftables',
    }
  return undefined
}

/** For an Event. */
export const choiceText = ({ mode, name, passedOver }: ModeChoice): string => {
  const reason = passedOver.map(one => `${one.name}: ${one.detail}`).join('; ')
  return `${mode} mode was requested, ${name} mode runs: ${reason}`
}

export const logFallback = (log: Log, { from, to, reason }: FallBack<ModeName>): void =>
  log.error(
    { from, to, why: reason },
    `Using ${to} Proxier: the previous mode no longer works`,
  )

/** For an Event. */
export const fallBackText = ({ from, to, reason }: FallBack<ModeName>): string =>
  `${from} mode no longer works, ${to} mode runs: ${reason}`

const logCapture = (log: Log, { name, detail, passedOver }: CaptureChoice): void =>
  // Then clients of most Services are not served.
  log[name === 'listen' && passedOver.length > 0 ? 'warn' : 'info'](
    { capture: name, ...reasons(detail, passedOver) },
    'capture selected',
  )

export const logRelay = (
  log: Log,
  { name, detail, passedOver, workers, ownProcess }: ChosenRelay,
  { limits, relayWorkers = 0 }: Pick<ProxyOptions, 'limits' | 'relayWorkers'>,
): void => {
  log.info(
    {
      relay: name,
      ...(name === 'linux' && { workers }),
      ...(ownProcess?.privileges && {
        ownProcess: privilegesText(ownProcess.privileges),
      }),
      ...reasons(detail, passedOver),
      ...(name === 'portable' && { lacks: portableLacks }),
    },
    'relay selected',
  )
  if (ownProcess !== undefined && ownProcess.excess !== '')
    log.warn(
      { why: ownProcess.excess },
      'the relay process keeps privileges it does not need',
    )
  const flags = name === 'portable' ? ignoredByPortable(limits, relayWorkers) : []
  if (flags.length > 0)
    log.warn({ flags }, 'flags without effect: only the linux relay supports them')
}

/** Of what the linux relay does: Node's sockets have no SO_LINGER. */
const portableLacks =
  'when it is killed, its connections end in order and not by a reset: a cut answer may look whole'

/**
 * It has one worker. Node's sockets have the idle time of keep-alive, and an interval and count of
 * their own.
 */
const ignoredByPortable = (
  limits: RelayLimits,
  relayWorkers: number,
): readonly string[] => [
  ...(relayWorkers <= 1 ? [] : ['relay-workers']),
  ...((limits.tcpKeepaliveInterval ?? 1000) === 1000 ? [] : ['tcp-keepalive-interval']),
  ...((limits.tcpKeepaliveProbes ?? 10) === 10 ? [] : ['tcp-keepalive-probes']),
  ...((limits.tcpUserTimeout ?? 0) === 0 ? [] : ['tcp-user-timeout']),
]
