import { existsSync } from 'node:fs'
import { filePins, pinsFolder } from '../kernel/bpf/pins.ts'
import { connectTimeKind } from '../kernel/cleanup/connect-time.ts'
import { exemptAtOnce, exemptGroups } from '../kernel/connect-time/tables.ts'
import { ConnectTime } from '../kernel/connect-time/connect-time.ts'
import { type ConnectTimeProbe, probeConnectTime } from '../kernel/connect-time/probe.ts'
import { connectTimeLock, type HostLock, SocketLock } from '../kernel/keeper/host-lock.ts'
import type { InspectCommand } from '../kernel/proxier.ts'
import { StoppableTools } from '../kernel/run-tool.ts'
import type { ModeName } from '../mode/mode.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { ConnectTimeFigures, connectTimeTable } from '../observe/connect-time-figures.ts'
import { type BoundMetric, bindMetrics } from '../observe/exposition.ts'
import type { ConnectTimeStatus } from '../observe/status.ts'
import { nodePortAddresses } from './cluster-facts.ts'
import type { ConnectTimeOptions, Shared } from './options.ts'
import { UntilDone } from '../kernel/keeper/until-done.ts'
import { removeLeftovers } from './remove-leftovers.ts'

export interface ConnectTimeDeps extends Shared {
  /** Sends an Event. */
  readonly notUsable: (message: string) => void
}

/** Connect-time steering beside the mode that runs, or what stands in its place where there is none. */
export interface ConnectTimePart {
  /** Before the mode's own. Never rejects. */
  readonly sync: (snapshots: readonly Snapshot[]) => Promise<void>
  /** The mode serves all that is wanted: what leads clients past it, and is wanted no more, goes. */
  readonly served: () => void
  readonly problems: () => readonly Problem[]
  /** Why clients may be led to what is gone; '' when they are not. */
  readonly staleSteeringError: () => string
  readonly inspectCommands: (
    servicePort: ServicePort,
    vip: Vip,
  ) => readonly InspectCommand[]
  /** Undefined where it is off. */
  readonly status: () => ConnectTimeStatus | undefined
  readonly metrics: (snapshots: readonly Snapshot[]) => Promise<readonly BoundMetric[]>
  /** Another Usher leads from now on, with what is there. */
  readonly handOver: () => Promise<void>
  /** At the beginning of an end: the next process may lead, where what is there stays. */
  readonly leave: (mode: ModeName) => Promise<void>
  /** After `leave`, or in place of it. Rejects when something stays that should not. */
  readonly close: (mode: ModeName) => Promise<void>
}

/** Finds out whether it works here, where it is asked for; again and again until it does. */
export const createConnectTime = async (
  deps: ConnectTimeDeps,
): Promise<ConnectTimePart> => {
  const { options, log } = deps
  const { connectTime } = options
  if (connectTime === undefined) return nothing
  const { wanted } = connectTime
  if (wanted === 'off') return without(deps, connectTime, () => undefined)
  const probeNow = () => probeConnectTime({ ...connectTime, onlyNode: wanted === 'host' })
  const probe = await probeNow()
  if (probe.usable) return leading(deps, connectTime, probe)
  let { detail } = probe
  if (wanted === 'auto')
    log.info({ why: detail }, 'connect-time steering does not work here')
  else {
    log.warn({ why: detail }, 'connect-time steering does not work here')
    deps.notUsable(`--connect-time ${wanted} does not work on this node: ${detail}`)
  }
  let led: ConnectTimePart | undefined
  const part = without(deps, connectTime, () => detail)
  const { close } = part
  const retry = new UntilDone(deps, async () => {
    const now = await probeNow()
    detail = now.detail
    if (!now.usable) return [notUsable(detail)]
    log.info({ detail }, 'connect-time steering works now')
    await close('userspace')
    led = leading(deps, connectTime, now)
    Object.assign(part, led)
    return []
  })
  retry.later([notUsable(detail)])
  const end = async (mode: ModeName) => {
    await retry.stop()
    await (led?.close ?? close)(mode)
  }
  return Object.assign(part, { leave: () => retry.stop(), close: end })
}

const object = 'connect-time steering'

const notUsable = (reason: string): Problem => ({
  object,
  field: '--connect-time',
  message: `it does not work here: ${reason}; the proxy mode carries all clients`,
})

const nothing: ConnectTimePart = {
  sync: async () => {},
  served: () => {},
  problems: () => [],
  staleSteeringError: () => '',
  inspectCommands: () => [],
  status: () => undefined,
  metrics: async () => [],
  handOver: async () => {},
  leave: async () => {},
  close: async () => {},
}

const clientsOf = ({ wanted }: ConnectTimeOptions): ConnectTimeStatus['clients'] =>
  wanted === 'host' ? 'host' : 'all'

/** `problemNow`: why it does not work; undefined where it is off. What an earlier Usher has left goes. */
const without = (
  deps: ConnectTimeDeps,
  connectTime: ConnectTimeOptions,
  problemNow: () => string | undefined,
): ConnectTimePart => {
  const { wanted, bpffs } = connectTime
  const isLeft = existsSync(pinsFolder(bpffs))
  let lock = lockOf(deps)
  let isLogged = !isLeft
  const kinds = [connectTimeKind(bpffs)]
  const removal = new UntilDone(deps, async () => {
    lock = lockOf(deps)
    const what = { object, kinds, before: '' }
    const left = (await lock.acquire()) ? await removeLeftovers(deps.log, what) : []
    await lock.release()
    return left
  })
  return {
    ...nothing,
    served: () => {
      if (isLogged) return
      isLogged = true
      removal.later([])
    },
    problems: () => {
      const reason = wanted === 'auto' ? undefined : problemNow()
      return [...removal.problems, ...(reason === undefined ? [] : [notUsable(reason)])]
    },
    status: () => {
      const [detail, clients] = [problemNow(), clientsOf(connectTime)]
      return detail === undefined
        ? undefined
        : { state: 'not usable', detail, clients, left: 0 }
    },
    close: async () => {
      const ended = removal.stop()
      await lock.release()
      await ended
    },
  }
}

const leading = (
  deps: ConnectTimeDeps,
  connectTime: ConnectTimeOptions,
  { bpf, cgroup, features, detail, self }: Extract<ConnectTimeProbe, { usable: true }>,
): ConnectTimePart => {
  const { clock, log, facts, resync, options, orders } = deps
  const { bpffs, exempt } = connectTime
  const own = self === undefined ? [] : [self]
  const figures = new ConnectTimeFigures(log)
  const steering = new ConnectTime({
    clock,
    bpf,
    cgroup,
    features: { ...features, exemptsGroups: exempt.length > 0 },
    pins: filePins(bpf, pinsFolder(bpffs)),
    lock: lockOf(deps),
    tools: new StoppableTools(),
    nodeAddresses: snapshots => nodePortAddresses(facts, snapshots),
    exempt: () => [...own, ...exempt.flatMap(each => exemptGroups(cgroup, each))],
    exemptSelf: () => own.forEach(key => exemptAtOnce(bpf, pinsFolder(bpffs), key)),
    resync,
    observer: figures,
  })
  steering.start()
  // As rules do: those of the kernel modes serve on, those that lead to a relay do not.
  const stays = (mode: ModeName): boolean =>
    mode !== 'userspace' || options.keepRules === true
  return {
    ...nothing,
    sync: snapshots => steering.sync(withOrdersToRelay(snapshots, orders)),
    problems: () => [...steering.problems, ...withoutGroups(cgroup, connectTime)],
    staleSteeringError: () => steering.staleSteeringError,
    inspectCommands: (servicePort, vip) => {
      const isOrdered = orders.all().some(({ name }) => name === servicePort.name)
      return isOrdered ? [] : steering.inspectCommands(servicePort, vip)
    },
    status: () => ({
      state: steering.state,
      detail,
      clients: clientsOf(connectTime),
      left: steering.left.length,
    }),
    metrics: async snapshots =>
      bindMetrics(connectTimeTable, {
        figures,
        state: steering.state,
        left: steering.left.length,
        counts: await steering.counts(snapshots),
      }),
    handOver: () => steering.stop(),
    leave: async mode => {
      if (stays(mode)) await steering.stop()
    },
    close: mode => (stays(mode) ? steering.stop() : steering.remove()),
  }
}

/** A name without `*` is of a group that is there. */
const withoutGroups = (
  cgroup: string,
  { exempt }: ConnectTimeOptions,
): readonly Problem[] =>
  exempt
    .filter(one => !one.includes('*') && exemptGroups(cgroup, one).length === 0)
    .map(one => ({
      object,
      field: '--connect-time-exempt',
      message: `there is no cgroup ${one} in ${cgroup}: give a path relative to it, with * for the parts that vary`,
    }))

/** What an operator has paused, drained or weighted is the relay's alone, which carries that out. */
const withOrdersToRelay = (
  snapshots: readonly Snapshot[],
  orders: Shared['orders'],
): readonly Snapshot[] => {
  const ordered = new Set(orders.all().map(({ name }) => name))
  if (ordered.size === 0) return snapshots
  return snapshots.map(snapshot => ({
    ...snapshot,
    servicePorts: new Map(
      [...snapshot.servicePorts].map(([key, one]) => [
        key,
        ordered.has(one.name) ? { ...one, relayed: true } : one,
      ]),
    ),
  }))
}

const lockOf = ({ clock, log, options: { version } }: ConnectTimeDeps): HostLock =>
  new SocketLock({
    clock,
    name: connectTimeLock,
    self: `usher ${version}, pid ${process.pid}`,
    waiting: holder =>
      log.warn(
        { holder },
        'another Usher steers connections on this node; waiting for it to end',
      ),
  })
