import type { Choice } from '../capture/choose-capture.ts'
import {
  interfaceAddresses,
  isOwnAddress,
  LocalAddresses,
} from '../capture/local-addresses.ts'
import { nodePortCidrs } from '../kernel/node-port-cidrs.ts'
import { openPortMemory, type PortMemory } from '../capture/port-memory.ts'
import { ProxyPorts } from '../capture/proxy-ports.ts'
import { NodeClients } from '../mode/node-clients.ts'
import { UserspaceMode } from '../mode/userspace.ts'
import { CaptureMetrics } from '../observe/capture-metrics.ts'
import { ConnectionLog } from '../observe/connection-log.ts'
import type { Log } from '../observe/log.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import { PortableRelay } from '../relay/portable/portable-relay.ts'
import type { Relay } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { ipFamilies } from '../util/ip.ts'
import type { CaptureFacts } from './capture/capture-options.ts'
import { createCapture } from './capture/create-capture.ts'
import { hostSystem } from './capture/host-system.ts'
import type { ProxyOptions } from './options.ts'

export interface DataPathDeps {
  readonly options: ProxyOptions
  readonly clock: Clock
  readonly random: () => number
  readonly log: Log
  readonly facts: CaptureFacts
}

export interface DataPath {
  readonly relay: Relay
  readonly mode: UserspaceMode
  readonly connectionLog: ConnectionLog
  /** How traffic gets to the relay, and why so. */
  readonly captureChoice: Choice
  readonly captureMetrics: CaptureMetrics
  /** Takes out what was put into the system; rejects when something stayed. */
  readonly close: () => Promise<void>
}

/** What carries the traffic: capture, relay, and the log of its connections. */
export const createDataPath = async (deps: DataPathDeps): Promise<DataPath> => {
  const { options, clock, random, log, facts } = deps
  const { podCidrs } = facts
  const captureMetrics = new CaptureMetrics()
  const memory = await portMemory(options, clock, log)
  const { capture, choice } = await createCapture({
    options,
    clock,
    log,
    facts,
    observer: captureMetrics,
    system: hostSystem({ clock, onBlind: why => sayBlind(log, why) }),
    localAddresses: new LocalAddresses(clock),
    proxyPorts: new ProxyPorts(options.proxyPortRange, random, undefined, memory),
    nodePortCidrs: family =>
      nodePortCidrs(options.nodePortAddresses ?? [], facts.nodeAddresses())(family),
  })
  const nodeClients = new NodeClients({ clock, ownAddresses, podCidrs })
  const connectionLog = new ConnectionLog({ log, clock })
  const relay = new PortableRelay({
    clock,
    random,
    limits: options.limits,
    observer: connectionLog,
    openFileLimit: openFileLimit(),
    isFromNode: address => nodeClients.has(address),
  })
  const mode = new UserspaceMode(capture, relay, isOwnAddress)
  const close = async (): Promise<void> => {
    await memory?.close()
    await mode.close()
  }
  return { relay, mode, connectionLog, captureChoice: choice, captureMetrics, close }
}

const sayBlind = (log: Log, why: string): void =>
  log.warn({ why }, 'for now nobody would notice a change of the rules by somebody else')

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
          if (why === '') log.info({ stateDir }, 'proxy ports are remembered again')
          else log.warn({ stateDir, why }, 'the memory of proxy ports does not work')
        },
      })

const ownAddresses = (): string[] =>
  ipFamilies.flatMap(family => interfaceAddresses(family))
