import type { BenchService, Endpoint } from '../services.ts'

/** One backend server: where it leads, or undefined for a spare. */
export type Slot = Endpoint | undefined

export interface HaproxyService {
  readonly name: string
  readonly listen: Endpoint
  readonly slots: readonly Slot[]
}

/** Spares beyond this many services would be hundreds of thousands of servers. */
const fewServices = 100
const slotsOfFew = 16

/** Servers for the endpoints, and spares for those that may come. */
export const slotsFor = (
  { endpoints }: BenchService,
  services: number,
): readonly Slot[] => {
  const count = Math.max(endpoints.length, services <= fewServices ? slotsOfFew : 0)
  return Array.from({ length: count }, (_, index) => endpoints[index])
}

/** How server `index` of a service is called. */
export const serverName = (index: number): string => `s${index + 1}`

export interface HaproxySetting {
  /** Path of the socket for runtime commands. */
  readonly socket: string
  /**
   * `option splice-auto`: HAProxy's own heuristics choose splice(2) for bulk data. It is
   * not on by default.
   */
  readonly splices: boolean
  /** Where `option tcplog` writes, as `log` has it; no log without it. */
  readonly log?: string
}

/**
 * HAProxy as one would set it up to be fast with one thread, as all others have one.
 * `maxconn` is not set: HAProxy takes what the limit of open files allows.
 * `timeout connect` is the first step of Usher's dial ladder, so that both leave a silent
 * endpoint after the same time; `redispatch 1` has each retry go to another server, but
 * that may have failed this connection before: with four of six dead, 6 retries fail one
 * connection in ten, 20 one in hundreds. No target has active health checks.
 */
export const haproxyConfig = (
  services: readonly HaproxyService[],
  { socket, splices, log }: HaproxySetting,
): string => `\
global
  nbthread 1
  stats socket ${socket} mode 600 level admin
${log === undefined ? '' : `  log ${log} local0\n`}\
defaults
  mode tcp
  balance roundrobin
  backlog 4096
${log === undefined ? '' : '  log global\n  option tcplog\n'}\
${splices ? '  option splice-auto\n' : ''}  option redispatch 1
  retries 20
  timeout connect 250ms
  timeout client 1h
  timeout server 1h
${services.map(section).join('')}`

const section = ({ name, listen, slots }: HaproxyService): string => `\
listen ${name}
  bind ${listen.address}:${listen.port}
${slots.map(server).join('')}`

const server = (slot: Slot, index: number): string =>
  slot === undefined
    ? `  server ${serverName(index)} 127.0.0.1:1 disabled\n`
    : `  server ${serverName(index)} ${slot.address}:${slot.port}\n`
