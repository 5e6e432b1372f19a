import { writeFile } from 'node:fs/promises'
import { setFlagsFromString } from 'node:v8'
import { readConfigFile } from '../config/settings/load-file.ts'
import { runSettings, type RunSettings } from '../config/run-settings.ts'
import type { ModeRequest } from '../mode/fallback-mode.ts'
import { createLog, type Log } from '../observe/log.ts'
import { noNode, type NodeParts, type ProxyDeps } from '../proxy/options.ts'
import { manifestSource } from '../source/manifests/manifest-source.ts'
import { systemClock, type Clock } from '../util/clock.ts'
import { Poller, signOf } from '../util/watched-file.ts'
import { cleanup } from './cleanup.ts'
import { askedMode, clusterParts } from './cluster-parts.ts'
import { initOnly } from './init-only.ts'
import type { Io } from './io.ts'
import { PodTurn } from './pod-turn.ts'
import { relayLimits, relayOptions } from './relay-limits.ts'
import { serve } from './serve.ts'
import { restartCode, type Stop } from './stop.ts'
import { version } from './version.ts'
import { messageOf } from '../util/usher-error.ts'
import { isDeepStrictEqual } from 'node:util'

/**
 * `usher run`: the node proxy, with the Kubernetes API or manifest files for a source. Takes
 * kube-proxy's flags and configuration file.
 */
export const run = async (args: readonly string[], io: Io): Promise<number> => {
  const settings = await runSettings(args, readConfigFile)
  const { options, configuration, warnings, cluster } = settings
  if (options.writeConfigTo !== '') {
    const { configurationYaml } = await import('../config/kube-proxy/yaml.ts')
    await writeFile(options.writeConfigTo, configurationYaml(configuration))
    io.out(`wrote ${options.writeConfigTo}\n`)
    return 0
  }
  if (options.cleanup)
    return cleanup(
      { dryRun: false, onlyUsher: false, connectTimeBpffs: options.connectTimeBpffs },
      io,
    )
  if (options.initOnly) return initOnly(settings, io)
  keepHeapSmall()
  const log = await createLog({ level: options.logLevel, format: options.logFormat })
  for (const what of warnings) log.warn({ what }, 'configuration warning')
  if (cluster !== undefined) await setOomScore(options.oomScoreAdj, log)
  const { source, node, mode } = await origin(settings, log)
  const deps = proxyDeps({ ...settings, mode }, source, node)
  return serve(
    {
      log,
      deps,
      watch: stop => watchConfig(args, settings, log, stop),
      mustListen: options.bindAddressHardFail,
      takeOver: options.takeOver === 'auto' ? options.controlSocket : undefined,
      turn: turnOf(options, log),
    },
    options,
  )
}

/** Undefined for one that is no pod. */
const turnOf = (
  { podDir, controlSocket }: RunSettings['options'],
  log: Log,
): PodTurn | undefined =>
  podDir === '' ? undefined : new PodTurn(podDir, controlSocket, log)

/**
 * Keeps V8's young generation as small as it starts, at 1 MB a half. It would grow to 16
 * while the objects of a large cluster are decoded, and seldom shrink: some 30 MB with
 * 5 000 Services, for no less work. And garbage of a third of what lives is collected: V8
 * would wait for as much again. Heeded at any time, as V8 asks for it when it grows.
 */
const keepHeapSmall = (): void => {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=30')
}

/**
 * How soon the kernel ends this process when memory is short; see proc(5). To lower it
 * takes CAP_SYS_RESOURCE, which few containers have: that is no reason not to serve.
 */
const setOomScore = async (score: number, log: Log): Promise<void> => {
  try {
    await writeFile('/proc/self/oom_score_adj', String(score))
  } catch (error) {
    const reason = messageOf(error)
    log.debug({ score, reason }, 'the OOM score could not be set')
  }
}

const proxyDeps = (
  {
    options,
    configuration,
    proxyPortAddress,
    localClients,
    mode,
    kernel,
    periods,
  }: RunSettings,
  source: ProxyDeps['source'],
  node: NodeParts,
): Omit<ProxyDeps, 'log'> => ({
  source,
  node: { ...node, ...localClients, configuration: () => configuration },
  options: {
    version: version(),
    capture: options.capture,
    bindAddress: proxyPortAddress,
    proxyPortRange: options.proxyPortRange,
    serviceCidr: options.serviceCidr,
    externalIps: options.externalIps,
    nodePortAddresses: options.nodeportAddresses.flat(),
    stateDir: options.stateDir,
    orphanMs: options.orphanTimeout,
    keepRules: options.keepRules,
    connectTime: {
      wanted: options.connectTime,
      cgroup: options.connectTimeCgroup,
      exempt: options.connectTimeExempt,
      bpffs: options.connectTimeBpffs,
    },
    metricsBindAddress: options.metricsBindAddress,
    healthzBindAddress: options.healthzBindAddress,
    controlSocket: options.controlSocket,
    bindHardFail: options.bindAddressHardFail,
    mode,
    kernel,
    periods: name => periods[name],
    ...relayOptions(options),
    limits: relayLimits(options),
  },
})

interface Origin {
  readonly source: ProxyDeps['source']
  readonly node: NodeParts
  readonly mode: ModeRequest
}

/** Where Services come from, and which mode is asked for there. */
const origin = async (settings: RunSettings, log: Log): Promise<Origin> => {
  const { options, cluster, mode } = settings
  if (cluster !== undefined) {
    const { source, node, modeAnnotation } = await clusterParts({
      access: cluster,
      hostname: options.hostnameOverride,
      otherNodes: options.capture === 'local',
      log,
    })
    return { source, node, mode: await askedMode(mode, modeAnnotation, log) }
  }
  const source = manifestSource({
    paths: options.manifests,
    onSkipped: what => log.info({ what }, 'object skipped: Usher does not use it'),
    onWarning: what => log.warn({ what }, 'manifest warning'),
  })
  return { source, node: { ...noNode, nodeName: options.hostnameOverride }, mode }
}

/** Ends Usher when the file of --config has come to mean something else. */
const watchConfig = (
  args: readonly string[],
  { options, configuration }: RunSettings,
  log: Log,
  stop: Stop,
): (() => void) => {
  if (options.config === '') return () => {}
  return watchConfigMeaning({
    clock: systemClock,
    current: configuration,
    sign: () => signOf(options.config),
    read: async () => (await runSettings(args, readConfigFile)).configuration,
    changed: () =>
      stop.request({ code: restartCode, reason: `${options.config} has changed` }),
    unusable: reason =>
      log.error(
        { file: options.config, reason },
        'the changed configuration file cannot be used; keeping the old configuration',
      ),
  })
}

interface ConfigWatchDeps<C> {
  readonly clock: Clock
  /** Another one when the file was written; see `signOf`. */
  readonly sign: () => Promise<string>
  /** Reads and checks the file; rejects when it can't be used. */
  readonly read: () => Promise<C>
  /** What Usher was started with. */
  readonly current: C
  /** The file now says something else. Called once, and then no more. */
  readonly changed: () => void
  /** The file has become unusable; called once for each new reason. */
  readonly unusable: (reason: string) => void
}

/** Milliseconds. A mounted ConfigMap takes up to a minute to arrive anyway. */
const pollEveryMs = 2000

/**
 * Looks whether a configuration file has come to mean something else, until what it gives is
 * called. What counts is the
 * meaning: neither a touched file nor a ConfigMap that is mounted anew is a change.
 * kube-proxy exits at any write, and then again and again over a file that it can't read;
 * here a bad file is logged and the old configuration stays in force.
 */
export const watchConfigMeaning = <C>(deps: ConfigWatchDeps<C>): (() => void) => {
  const { clock, sign, read, current, changed, unusable } = deps
  let reported = ''
  let lastSign = ''
  let isRead = false
  const look = async (): Promise<void> => {
    const signNow = await sign()
    if (isRead && signNow === lastSign) return
    // Twice: a write within one tick of the kernel's clock leaves the sign as it was.
    isRead = signNow === lastSign
    lastSign = signNow
    try {
      const now = await read()
      reported = ''
      if (!poller.isOn || isDeepStrictEqual(now, current)) return
      poller.close()
      changed()
    } catch (error) {
      isRead = false
      const reason = messageOf(error)
      if (reason !== reported && poller.isOn) unusable(reason)
      reported = reason
    }
  }
  const poller = new Poller(clock, pollEveryMs, look)
  poller.start()
  return () => poller.close()
}
