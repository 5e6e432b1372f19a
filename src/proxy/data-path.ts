import type { CaptureChoice, Placement } from '../capture/capture.ts'
import {
  isOwnAddress,
  LocalAddresses,
  nodeAddresses,
  ownAddresses,
} from '../capture/local-addresses.ts'
import { openPortMemory, type PortMemory } from '../capture/port-memory.ts'
import { proxyPortId } from '../capture/listen.ts'
import { type OwnedPort, ProxyPorts } from '../capture/proxy-ports.ts'
import { vipGroupNames } from '../capture/vip-group.ts'
import { NodeClientsWatch } from '../mode/node-clients.ts'
import { UserspaceMode } from '../mode/userspace.ts'
import { AccessLog } from '../observe/access-log/access-log.ts'
import { RuleMetrics } from '../observe/rule-metrics.ts'
import { ConnectionLog } from '../observe/connection-log.ts'
import type { Log } from '../observe/log.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import {
  type ChosenRelay,
  type MadeRelay,
  makeRelay,
  type RelayDeps,
} from '../relay/make-relay.ts'
import type { HandsOver, Inheritance, Relay } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { familyOf, ipFamilies, type IpFamily } from '../util/ip.ts'
import { messageOf } from '../util/usher-error.ts'
import { createCapture, hostSystem } from './capture/create-capture.ts'
import type { ProxyOptions, Shared } from './options.ts'
import { openOrphanFile, type OrphanFile, type OrphanRecord } from './orphan-file.ts'
import { ownProcess } from './own-process.ts'

export interface DataPath {
  readonly relay: Relay & HandsOver
  readonly mode: UserspaceMode
  readonly connectionLog: ConnectionLog
  /** Of routes that have one. */
  readonly accessLog: AccessLog
  /** How traffic gets to the relay, and why so. */
  readonly captureChoice: () => CaptureChoice
  readonly captureMetrics: RuleMetrics
  /** Once it has what was there before it: should this process crash its data plane can be found. */
  readonly serves: () => Promise<void>
  /** What an Usher has left behind that has crashed. */
  readonly orphan: OrphanRecord | undefined
  /** Of Services, on this host, with the sockets that listen there. */
  readonly proxyPorts: () => readonly OwnedPort[]
  /**
   * Another process's sockets are this one's; `capture`: by which it led clients there, `owned`: its proxy
   * ports, undefined where only what was remembered tells them.
   */
  readonly inherit: (
    from: Inheritance,
    capture: string,
    owned?: readonly OwnedPort[],
  ) => void
  /** Whether they are those that rules of then lead to. */
  readonly isHeir: () => boolean
  /** What carries it, and why so. */
  readonly relayChoice: ChosenRelay
}

/**
 * What carries the traffic: capture, relay, and the log of its connections. Rejects when a
 * capture or relay that was asked for by name does not work here.
 */
export const createDataPath = async (
  deps: Shared,
  { isBesideKernelMode = false, before = '' } = {},
): Promise<DataPath> => {
  const { options, clock, random, log, facts, resync, allFailed } = deps
  const accessLog = new AccessLog({ log, clock })
  const connectionLog = new ConnectionLog({
    log,
    clock,
    allFailed,
    accessLines: batch => accessLog.lines(batch),
    portTaken: (listener, bind) => {
      if (!proxyPorts.isHeld(bind.port)) return
      const ids = proxyPortIds(mode.placements, listener, familyOf(bind.address))
      if (ids.some(id => proxyPorts.lost(id, bind.port))) resync()
    },
  })
  const orphans = await orphanFile(options, log)
  // First: where it does not work, nothing has been touched yet.
  const { relay, choice: relayChoice } = await relayOf(deps, orphans, {
    clock,
    limits: options.limits,
    observer: connectionLog,
    openFileLimit: openFileLimit(),
    workers: options.relayWorkers ?? 0,
  })
  const captureMetrics = new RuleMetrics()
  const memory = await portMemory(options, clock, log)
  const proxyPorts = new ProxyPorts(options.proxyPortRange, random, undefined, memory)
  const localAddresses = new LocalAddresses(clock)
  let hasSockets = false
  const captureDeps = {
    options,
    clock,
    log,
    facts,
    resync,
    metrics: captureMetrics,
    system: hostSystem({ clock, onBlind: reason => logBlind(log, reason) }),
    localAddresses,
    proxyPorts,
    hasSockets: () => hasSockets,
    isBesideKernelMode,
  }
  const capture = await createCapture(captureDeps, before).catch(
    async (error: unknown) => {
      await relay.drain(0)
      throw error
    },
  )
  let hostHas = ''
  const nodeClients = new NodeClientsWatch({
    clock,
    ownAddresses,
    podCidrs: facts.nodePodCidrs,
    changed: clients => {
      relay.setNodeClients(clients)
      // Without what captures put on lo. What was not local may be so by now.
      const has = ipFamilies
        .flatMap(one => nodeAddresses(one, { has: () => true }))
        .join()
      if (hostHas !== '' && hostHas !== has) {
        localAddresses.forget('all')
        resync()
      }
      hostHas = has
    },
    failed: why => {
      if (why === '') log.info({}, 'the addresses of this host can be read again')
      else
        log.warn(
          { why },
          "the addresses of this host can't be read; the last known ones stay in use",
        )
    },
  })
  const ended = async (): Promise<void> => {
    await memory?.close()
    await accessLog.close()
    connectionLog.close()
  }
  const mode = new UserspaceMode({
    capture,
    relay,
    isLocal: isOwnAddress,
    nodeClients,
    orders: deps.orders,
    ended,
  })
  return {
    relay,
    mode,
    connectionLog,
    accessLog,
    captureChoice: () => capture.choice,
    captureMetrics,
    relayChoice,
    orphan: orphans?.before,
    serves: async () => {
      await orphans?.write(capture.choice.name).catch((error: unknown) => {
        log.warn({ why: messageOf(error) }, notAdopted)
      })
    },
    isHeir: () => hasSockets,
    proxyPorts: () => proxyPorts.inUse(),
    inherit: ({ sockets }, captureThen, owned) => {
      const ports = new Set(sockets.flatMap(handedPorts))
      const proven = proxyPorts.prove(one => ports.has(portKey(one)), owned)
      // Else some Service has another port now, and the rules of then lead to the old one.
      hasSockets = capture.choice.name === captureThen && proven >= sockets.length
    },
  }
}

const portKey = ({ id, protocol, port }: OwnedPort): string => `${id} ${protocol} ${port}`

/** Whichever group of its VIPs it was for. */
const handedPorts = ({
  listener,
  protocol,
  bind: { port },
}: Inheritance['sockets'][number]): readonly string[] =>
  vipGroupNames.map(group =>
    portKey({ id: proxyPortId(listener, group), protocol, port }),
  )

const proxyPortIds = (
  placements: readonly Placement[],
  name: string,
  family: IpFamily | undefined,
): readonly string[] =>
  placements
    .filter(({ servicePort: one }) => one.name === name && one.family === family)
    .flatMap(one => vipGroupNames.map(group => proxyPortId(one.listenerId, group)))

/** In a process of its own, unless nothing is ever started in this one. */
const relayOf = async (
  { options, resync, random }: Shared,
  orphans: OrphanFile | undefined,
  deps: RelayDeps,
): Promise<MadeRelay> => {
  const { relay = 'portable', sharesProcess = false, orphanMs = 0 } = options
  if (sharesProcess) return makeRelay(relay, deps)
  const orphan = orphans && { ...orphans.place, ms: orphanMs }
  return ownProcess({ ...deps, random, relay, lost: resync, orphan })
}

const notAdopted =
  'should this process crash, its connections end: the state directory cannot be written'

/** Where the next process finds the data plane, should this one crash. */
const orphanFile = async (
  { stateDir = '', orphanMs = 0 }: ProxyOptions,
  log: Log,
): Promise<OrphanFile | undefined> => {
  if (stateDir === '' || orphanMs === 0) return undefined
  try {
    return await openOrphanFile(stateDir)
  } catch (error) {
    log.warn({ stateDir, why: messageOf(error) }, notAdopted)
    return undefined
  }
}

const logBlind = (log: Log, why: string): void =>
  log.warn({ why }, 'rule changes by other programs currently go undetected')

/** What proxy ports were in the last run, if anywhere it is remembered. */
const portMemory = async (
  { stateDir = '' }: ProxyOptions,
  clock: Clock,
  log: Log,
): Promise<PortMemory | undefined> =>
  stateDir === ''
    ? undefined
    : openPortMemory({
        directory: stateDir,
        clock,
        failed: why => {
          if (why === '') log.info({ stateDir }, 'proxy ports are saved again')
          else log.warn({ stateDir, why }, 'proxy ports cannot be saved')
        },
      })
