import { anywhere } from '../kernel/probe.ts'
import type { ModeChoice, ModeStep } from '../mode/fallback-mode.ts'
import { FallbackMode } from '../mode/fallback-mode.ts'
import { HybridMode } from '../mode/hybrid-mode.ts'
import { kernelModeNames, type Mode, type ModeName } from '../mode/mode.ts'
import { ServiceSplitter } from '../mode/split-services.ts'
import { type BoundMetric, bindMetrics } from '../observe/exposition.ts'
import { modeTable } from '../observe/metrics-table.ts'
import {
  captureTable,
  kernelTables,
  loopbackTable,
} from '../observe/rule-metrics-table.ts'
import { RuleMetrics } from '../observe/rule-metrics.ts'
import { accessLogMetrics, relayInfoMetrics } from '../observe/relay-metrics.ts'
import { createDataPath, type DataPath } from './data-path.ts'
import { kernelKinds } from './kernel/kernel-kinds.ts'
import { kernelStep } from './kernel/kernel-step.ts'
import type { ProxyOptions, Shared } from './options.ts'
import {
  choiceText,
  fallBackText,
  isFallBack,
  modeWarning,
  sayCapture,
  sayFallBack,
  sayMode,
  sayRelay,
} from './say-choices.ts'

export interface TrafficDeps extends Shared {
  /** Sends an Event about the mode that runs. */
  readonly event: (reason: string, message: string) => void
}

/** What carries the traffic. */
export interface Traffic {
  readonly mode: Mode
  /** What runs now, and why so. */
  readonly choice: () => ModeChoice
  /** Relay and capture, when userspace is what runs. */
  readonly dataPath: () => DataPath | undefined
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
      sayCapture(log, dataPath.captureChoice())
      sayRelay(log, dataPath.relayChoice, options)
      return dataPath.mode
    },
  }
  const mode = await FallbackMode.start({
    request,
    steps: [
      ...kernelSteps(deps, metrics, () => dataPath !== undefined).map(step =>
        step.name === 'nftables'
          ? withRelay(deps, step, path => (dataPath = path))
          : step,
      ),
      userspace,
    ],
    fellBack: change => {
      fallBacks += 1
      // That of Services that asked for it has ended with the mode.
      if (change.to !== 'userspace') dataPath = undefined
      sayFallBack(log, change)
      fellBack(fallBackText(change))
    },
    failed: err => log.warn({ err }, 'the mode that ran could not be ended in order'),
  })
  isRunning = true
  sayMode(log, mode.choice)
  const { choice } = mode
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
    metrics: () => [
      ...bindMetrics(modeTable, { mode: mode.name, fallBacks }),
      ...bindMetrics(kernelTables[mode.name], metrics[mode.name]),
      ...(mode.name === 'nftables' && options.kernel?.nftables.localhostNodePorts
        ? bindMetrics(loopbackTable, {
            placements: mode.placements,
            failingBinds: dataPath?.connectionLog.failingBinds,
          })
        : []),
      ...(dataPath
        ? [
            ...bindMetrics(captureTable, dataPath.captureMetrics),
            ...bindMetrics(relayInfoMetrics, dataPath.relayChoice),
            ...bindMetrics(accessLogMetrics, dataPath.accessLog),
          ]
        : []),
    ],
    close: () => mode.close(),
  }
}

/** Services that ask for it are carried by a relay; it is made when there is one. */
const withRelay = (
  deps: TrafficDeps,
  step: ModeStep,
  made: (dataPath: DataPath) => void,
): ModeStep => ({
  ...step,
  start: async (probes, before) => {
    const { options, log } = deps
    const { localhostNodePorts = false } = options.kernel?.nftables ?? {}
    return new HybridMode({
      kernel: await step.start(probes, before),
      splitter: new ServiceSplitter(localhostNodePorts),
      startRelay: async () => {
        const path = await createDataPath(
          { ...deps, options: besideKernelMode(options) },
          { isBesideKernelMode: true },
        )
        sayRelay(log, path.relayChoice, options)
        made(path)
        return path.mode
      },
      sleep: ms => new Promise(resolve => deps.clock.setTimeout(resolve, ms).unref?.()),
      failed: err =>
        log.error(
          { err },
          'Services that the relay served are not served until the next start',
        ),
    })
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
