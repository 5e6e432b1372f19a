import { problemText } from '../source/decode/problem.ts'
import { silentObserver } from '../relay/relay.ts'
import { readConfigFile } from '../config/settings/load-file.ts'
import { parseOptions } from '../config/parse.ts'
import { runSettings, type RunSettings } from '../config/run-settings.ts'
import { bridgeWarning } from '../kernel/bridges.ts'
import { findNodeProxy } from '../kernel/cleanup/node-proxy.ts'
import { probeConnectTime } from '../kernel/connect-time/probe.ts'
import { nodePortCidrs } from '../kernel/node-port-cidrs.ts'
import type { Problem, ServicePort } from '../model/snapshot.ts'
import { hostSystem, probeAll } from '../proxy/capture/create-capture.ts'
import { nodePortProblems, onLoopback } from '../proxy/cluster-facts.ts'
import { probeKernelModes } from '../proxy/kernel/kernel-step.ts'
import { ownProcess } from '../proxy/own-process.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { listFiles } from '../source/manifests/list-files.ts'
import { type ManifestSet, FirstSight } from '../source/manifests/read-manifests.ts'
import { readApart } from '../source/manifests/read-apart.ts'
import { systemClock } from '../util/clock.ts'
import { styled } from './text-table.ts'
import type { Style } from '../page/column.ts'
import {
  type Lack,
  lacking,
  nextOfNode,
  nextOfProblems,
  nextOfRoutes,
  nextOfRun,
} from './check-next.ts'
import { type NodeFindings, nodeReport, notUsable, unusableText } from './check-node.ts'
import { unknownFields } from './check-fields.ts'
import { type Io, count, visible } from './io.ts'
import { relayLimits } from './relay-limits.ts'
import { Registry } from '../model/registry.ts'
import { ipFamilies } from '../util/ip.ts'
import { clashText } from '../source/routes/decode-route.ts'
import type { Route } from '../source/routes/route.ts'
import { faultText, readRoutes, readRoutesText } from '../source/routes/read-routes.ts'
import { ListFiles } from '../source/routes/list-files.ts'

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

const summary = (
  files: number,
  set: ManifestSet,
  findings: { readonly [of in keyof Findings]: readonly unknown[] },
): string => {
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
  const modes = await probeKernelModes(systemClock, kernel)
  const captures = await probeAll(hostSystem({ clock: systemClock }))
  const connectTime = await probeConnectTime({
    cgroup: options.connectTimeCgroup,
    bpffs: options.connectTimeBpffs,
    onlyNode: options.connectTime === 'host',
  })
  const bridges = await bridgeWarning()
  return { modes, captures, connectTime, relay: await relayHere(options), bridges }
}

/** What is asked for and this node can't do: a warning, as the file may be for another node. */
const lacksHere = async (settings: RunSettings): Promise<readonly Lack[]> => {
  const { mode, options } = settings
  const asks =
    (mode.mode !== '' && mode.mode !== 'userspace') ||
    !['auto', 'listen', 'none'].includes(options.capture) ||
    options.relay === 'linux' ||
    ['on', 'host'].includes(options.connectTime)
  return asks ? lacking(settings, await findingsOfNode(settings)) : []
}

/** Started as `usher run` would, without anything to listen for. */
const relayHere = async (options: RunSettings['options']): Promise<ChosenRelay> => {
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

/** How a check has come out, and what to do next. */
interface Checked {
  readonly isSound: boolean
  readonly next: readonly string[]
}

type Report = (kind: 'problem' | 'warning' | 'skipped', text: string) => void

const styles: Readonly<Record<Parameters<Report>[0], Style>> = {
  problem: 'red',
  warning: 'yellow',
  skipped: 'dim',
}

const checkNode = async (
  args: readonly string[],
  settings: RunSettings,
  io: Io,
): Promise<Checked> => {
  const findings = await findingsOfNode(settings)
  io.out(nodeReport(findings, io.colour))
  return {
    isSound: lacking(settings, findings).length === 0,
    next: nextOfNode({
      ...settings,
      args,
      findings,
      beside: await findNodeProxy(),
      inPod: process.env['KUBERNETES_SERVICE_HOST'] !== undefined,
    }),
  }
}

const checkFiles = async (
  args: readonly string[],
  settings: RunSettings,
  route: readonly Route[],
  report: Report,
  io: Io,
): Promise<Checked> => {
  const { manifests } = settings.options
  const byFlag = await checkFlags(route)
  const inFiles = await checkRoutes(manifests, route)
  const ofRoutes = [...byFlag, ...inFiles]
  for (const { problems, summary: text } of ofRoutes) {
    for (const problem of problems) report('problem', problem)
    io.out(`${visible(text)}\n`)
  }
  const routePaths = inFiles.map(({ path }) => path)
  const paths = manifests.filter(path => !routePaths.includes(path))
  const areSound = paths.length === 0 || (await checkManifests(paths, report, io))
  const isSound = areSound && ofRoutes.every(({ problems }) => problems.length === 0)
  const flags = args.filter(isOfRoute)
  if (!isSound) return { isSound, next: nextOfProblems([...manifests, ...flags]) }
  const ofRun = args.filter(
    (arg, i) => !routePaths.includes(arg) && !isOfRoute(arg, i, args),
  )
  const configs = routePaths.map(path => ['--config', path])
  const calls = flags.length > 0 && configs.length === 0 ? [[]] : configs
  return {
    isSound,
    next: [
      ...(paths.length === 0 ? [] : nextOfRun(ofRun, settings)),
      ...calls.map(config => nextOfRoutes([...flags, ...config])),
    ],
  }
}

/** `--route ROUTE`, `--route=ROUTE`. */
const isOfRoute = (arg: string, i: number, args: readonly string[]): boolean =>
  /^--route(?:=|$)/.test(arg) || args[i - 1] === '--route'

const checkManifests = async (
  paths: readonly string[],
  report: Report,
  io: Io,
): Promise<boolean> => {
  const { files } = await listFiles(paths)
  const set = await readApart(paths, new AbortController().signal)
  const { faults, left } = await unknownFields(files)
  const found = findingsOf(set)
  const unread = left.map(
    file => `${file}: it is large, so unknown fields were not looked for`,
  )
  const findings = {
    problems: [...faults, ...found.problems.map(problemText)],
    warnings: [...found.warnings, ...unread],
  }
  for (const text of findings.problems) report('problem', text)
  for (const text of findings.warnings) report('warning', text)
  for (const text of set.skipped) report('skipped', text)
  io.out(`${summary(files.length, set, findings)}\n`)
  return findings.problems.length === 0
}

/** `usher check`: 0 when nothing is wrong (warnings do not count), 1 when something is. */
export const check = async (args: readonly string[], io: Io): Promise<number> => {
  const settings = await runSettings(args, readConfigFile, 'check')
  const { options, warnings } = settings
  const { route } = parseOptions('check', args)
  const report: Report = (kind, text) =>
    io.out(`${styled(`${kind}:`, styles[kind], io.colour)} ${visible(text)}\n`)
  for (const text of warnings) report('warning', text)
  const ofConfig = async (): Promise<Checked> => {
    const lacks = await lacksHere(settings)
    for (const { what, reason } of lacks)
      report('warning', `${what} ${notUsable} here: ${unusableText(reason)}`)
    const { mode, kernel } = settings
    const barren = nodePortProblems(
      nodePortCidrs(options.nodeportAddresses.flat(), []),
      onLoopback(mode.mode === '' ? 'userspace' : mode.mode, kernel),
    )
    for (const problem of barren) report('warning', problemText(problem))
    const found = warnings.length + lacks.length + barren.length
    const warned = count(found, 'warning')
    io.out(`${options.config}: in order; ${warned}\n`)
    const next = nextOfRun(args, settings)
    return { isSound: true, next: [...lacks.map(({ advice }) => advice), ...next] }
  }
  const { isSound, next } =
    options.manifests.length > 0 || route.length > 0
      ? await checkFiles(args, settings, route, report, io)
      : options.config === ''
        ? await checkNode(args, settings, io)
        : await ofConfig()
  io.out(`next: ${next.map(visible).join('\n      ')}\n`)
  return isSound ? 0 : 1
}

interface Findings {
  /** What Usher would refuse: of documents and values, then of Services in conflict. */
  readonly problems: readonly Problem[]
  /** What it would take although it is probably not meant. */
  readonly warnings: readonly string[]
}

/**
 * Why clients of a ServicePort would be refused; undefined when they would not. With a
 * Local policy it depends on the node, and is not known here.
 */
const refusal = (port: ServicePort): string | undefined => {
  if (port.internal.verdict !== 'reject') return undefined
  const reason =
    port.endpoints.length === 0 ? 'no endpoints' : 'no endpoint that is ready'
  return `Service ${port.name} (${port.protocol}, ${port.family}) has ${reason}; its clients would be refused`
}

/** Endpoints of Services that are not there; a refused Service has its own problem. */
const orphans = (set: ManifestSet): string[] => {
  const present = new Set([...set.objects.map(({ key }) => key), ...set.refused])
  const warnings = new Set<string>()
  for (const { key, changes } of set.objects)
    for (const change of changes) {
      if (change.kind !== 'EndpointSlice' || change.object === undefined) continue
      const service = `Service ${change.namespace}/${change.object.serviceName}`
      if (!present.has(service))
        warnings.add(`${key} is for ${service}, which is not there; it would not be used`)
    }
  return [...warnings]
}

/** What is wrong, or odd, about a set of manifests as a running Usher would see it. */
const findingsOf = (set: ManifestSet): Findings => {
  const registry = new Registry()
  const firstSight = new FirstSight()
  registry.apply(set.objects.flatMap(object => firstSight.numbered(object).changes))
  const ports = ipFamilies.flatMap(family =>
    Array.from(registry.snapshot(family).servicePorts.values()),
  )
  const problems = [...set.problems, ...registry.problems()]
  // What could not be read may hold just what seems to be missing.
  if (set.unreadable.length > 0) return { problems, warnings: [] }
  const warnings = ports.map(refusal).filter(text => text !== undefined)
  if (ports.length === 0) warnings.push('there is no Service with an address to serve')
  return { problems, warnings: [...warnings, ...orphans(set), ...set.warnings] }
}

/** One file of routes that was checked, or all that flags give. */
interface CheckedRoutes {
  readonly path: string
  readonly problems: readonly string[]
  /** `routes.yaml: 3 routes, ok`. */
  readonly summary: string
}

/** Each is sound by itself. */
const checkFlags = async (
  routes: readonly Route[],
): Promise<readonly CheckedRoutes[]> => {
  const clash = clashText(routes)
  return routes.length === 0
    ? []
    : [await checkedRoutes('--route', routes, clash === '' ? [] : [clash])]
}

/** Those of `paths` that are meant to be files of routes, sound or not; `fixed`: beside them by flags. */
const checkRoutes = async (
  paths: readonly string[],
  fixed: readonly Route[],
): Promise<readonly CheckedRoutes[]> => {
  const checked: CheckedRoutes[] = []
  for (const path of paths) {
    const text = await readRoutesText(path).catch(() => '')
    if (isOfRoutes(text)) checked.push(await checkOne(path, text, fixed))
  }
  return checked
}

const top = String.raw`^(?:\{\s*)?["']?`

/** By what stands at the top, or a route without that; manifests have an apiVersion there. */
const isOfRoutes = (text: string): boolean =>
  (new RegExp(String.raw`${top}routes?["']?\s*:`, 'im').test(text) ||
    /^[-\s{[]*["']?listen["']?\s*:\s*["']?(?:tcp|udp|unix):/m.test(text)) &&
  !new RegExp(String.raw`${top}(?:apiVersion|kind)["']?\s*:`, 'm').test(text)

const checkOne = async (
  path: string,
  text: string,
  fixed: readonly Route[],
): Promise<CheckedRoutes> => {
  const { routes, faults } = await readRoutes(text, fixed)
  return checkedRoutes(path, routes, faults.map(faultText))
}

const checkedRoutes = async (
  path: string,
  routes: readonly Route[],
  faults: readonly string[],
): Promise<CheckedRoutes> => {
  const ofLists = await new ListFiles().load(routes)
  const all = faults.length + ofLists.length
  const verdict =
    all === 0 ? `${count(routes.length, 'route')}, ok` : count(all, 'problem')
  return {
    path,
    problems: [
      ...faults.map(fault => `${path}: ${fault}`),
      ...ofLists.map(({ file, message }) => `${file}: ${message}`),
    ],
    summary: `${path}: ${verdict}`,
  }
}
