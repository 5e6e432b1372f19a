import { silentObserver } from '../relay/relay.ts'
import { readConfigFile } from '../config/settings/load-file.ts'
import { runSettings, type RunSettings } from '../config/run-settings.ts'
import type { Problem } from '../model/snapshot.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { listFiles } from '../source/manifests/list-files.ts'
import type { ManifestSet } from '../source/manifests/manifest-set.ts'
import { readApart } from '../source/manifests/read-apart.ts'
import { systemClock } from '../util/clock.ts'
import { findingsOf, type Findings } from './check-findings.ts'
import { styled, type Style } from './columns.ts'
import { type NodeFindings, nodeReport } from './check-node.ts'
import { checkRoutes } from './check-routes.ts'
import type { Io } from './io.ts'
import { relayLimits } from './relay-limits.ts'
import { count, visible } from './words.ts'

const problemText = ({ object, field, message }: Problem): string =>
  [object, field, message].filter(part => part !== '').join(': ')

/** `3 Services, 4 EndpointSlices`, refused ones included. */
const kindsText = (set: ManifestSet): string => {
  const kinds = new Map<string, number>()
  for (const key of [...set.objects.map(object => object.key), ...set.refused]) {
    const kind = key.slice(0, key.indexOf(' '))
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  }
  const texts = [...kinds].map(([kind, number]) =>
    count(number, kind, kind.endsWith('s') ? kind : `${kind}s`),
  )
  return texts.join(', ') || 'nothing Usher reads'
}

const summary = (files: number, set: ManifestSet, findings: Findings): string => {
  const { problems, warnings } = findings
  const read = `${count(files, 'file')}, ${count(set.documents, 'document')}`
  const warned = warnings.length === 0 ? '' : `, ${count(warnings.length, 'warning')}`
  return `${read}: ${kindsText(set)}; ${count(problems.length, 'problem')}${warned}`
}

/** By trying, and leaving nothing behind. */
const findingsOfNode = async ({
  kernel,
  options,
}: RunSettings): Promise<NodeFindings> => {
  const { probeKernelModes } = await import('../proxy/kernel/kernel-kinds.ts')
  const modes = await probeKernelModes(systemClock, kernel)
  const { hostSystem, probeAll } = await import('../proxy/capture/host-system.ts')
  const captures = await probeAll(hostSystem({ clock: systemClock }))
  const { probeConnectTime } = await import('../kernel/connect-time/probe.ts')
  const connectTime = await probeConnectTime({
    cgroup: options.connectTimeCgroup,
    bpffs: options.connectTimeBpffs,
    onlyNode: options.connectTime === 'host',
  })
  return { modes, captures, connectTime, relay: await relayHere(options) }
}

/** Started as `usher run` would, without anything to listen for. */
const relayHere = async (options: RunSettings['options']): Promise<ChosenRelay> => {
  const { ownProcess } = await import('../proxy/own-process.ts')
  const { relay, choice } = await ownProcess({
    clock: systemClock,
    random: Math.random,
    relay: 'auto',
    limits: relayLimits(options),
    observer: silentObserver,
    openFileLimit: openFileLimit(),
    workers: 1,
  })
  await relay.drain(0)
  return choice
}

const lacksWhatIsAskedFor = (
  { options, mode }: RunSettings,
  { modes, captures, connectTime, relay }: NodeFindings,
): boolean =>
  [
    captures.find(({ name }) => name === options.capture),
    modes.find(({ name }) => name === mode.mode),
  ].some(asked => asked?.usable === false) ||
  (options.relay === 'linux' && relay.name !== 'linux') ||
  (['on', 'host'].includes(options.connectTime) && !connectTime.usable)

/** `usher check`: 0 when nothing is wrong (warnings do not count), 1 when something is. */
export const check = async (args: readonly string[], io: Io): Promise<number> => {
  const settings = await runSettings(args, readConfigFile, 'check')
  const { options, warnings } = settings
  const say = (kind: string, text: string, style: Style): void =>
    io.out(`${styled(`${kind}:`, style, io.colour)} ${visible(text)}\n`)
  for (const text of warnings) say('warning', text, 'yellow')
  if (options.manifests.length === 0 && options.config === '') {
    const findings = await findingsOfNode(settings)
    io.out(nodeReport(findings, io.colour))
    return lacksWhatIsAskedFor(settings, findings) ? 1 : 0
  }
  if (options.manifests.length === 0) {
    io.out(`${options.config}: in order; ${count(warnings.length, 'warning')}\n`)
    return 0
  }
  const ofRoutes = await checkRoutes(options.manifests)
  for (const { problems, summary: text } of ofRoutes) {
    for (const problem of problems) say('problem', problem, 'red')
    io.out(`${visible(text)}\n`)
  }
  const isSound = ofRoutes.every(({ problems }) => problems.length === 0)
  const paths = options.manifests.filter(path => !ofRoutes.some(one => one.path === path))
  if (paths.length === 0) return isSound ? 0 : 1
  const { files } = await listFiles(paths)
  const set = await readApart(paths, new AbortController().signal)
  const findings = findingsOf(set)
  for (const problem of findings.problems) say('problem', problemText(problem), 'red')
  for (const text of findings.warnings) say('warning', text, 'yellow')
  for (const text of set.skipped) say('skipped', text, 'dim')
  io.out(`${summary(files.length, set, findings)}\n`)
  return isSound && findings.problems.length === 0 ? 0 : 1
}
