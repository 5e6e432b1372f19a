import type { Capture } from '../capture/capture.ts'
import { listenCapture } from '../capture/listen.ts'
import {
  interfaceAddresses,
  isOwnAddress,
  LocalAddresses,
} from '../capture/local-addresses.ts'
import { ProxyPorts } from '../capture/proxy-ports.ts'
import { NodeClients } from '../mode/node-clients.ts'
import { UserspaceMode } from '../mode/userspace.ts'
import { ConnectionLog } from '../observe/connection-log.ts'
import type { Log } from '../observe/log.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import { PortableRelay } from '../relay/portable/portable-relay.ts'
import type { Relay } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { ipFamilies } from '../util/ip.ts'
import type { ProxyOptions } from './options.ts'

export interface DataPathDeps {
  readonly options: ProxyOptions
  readonly clock: Clock
  readonly random: () => number
  readonly log: Log
  /** CIDRs of pods that count as this node's clients. */
  readonly podCidrs: () => readonly string[]
}

export interface DataPath {
  readonly relay: Relay
  readonly mode: UserspaceMode
  readonly connectionLog: ConnectionLog
}

/** What carries the traffic: capture, relay, and the log of its connections. */
export const createDataPath = (deps: DataPathDeps): DataPath => {
  const { options, clock, random, log, podCidrs } = deps
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
  const mode = new UserspaceMode(captureOf(options, clock, random), relay, isOwnAddress)
  return { relay, mode, connectionLog }
}

const ownAddresses = (): string[] =>
  ipFamilies.flatMap(family => interfaceAddresses(family))

const captureOf = (
  { capture, captureAdvice, bindAddress, proxyPortRange }: ProxyOptions,
  clock: Clock,
  random: () => number,
): Capture =>
  listenCapture({
    mode: capture,
    bindAddress,
    proxyPortRange,
    localAddresses: new LocalAddresses(clock),
    proxyPorts: new ProxyPorts(proxyPortRange, random),
    ...(captureAdvice !== undefined && { advice: captureAdvice }),
  })
