import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Care, CheckKind, Endpoint } from '../services.ts'
import { haproxy, programProblem } from './program.ts'
import { hostPort, type Placed, startByFile } from './proxy.ts'
import { type LogTo, withReceiver } from './receiver.ts'
import type { RunningTarget, Target } from './target.ts'

export interface HaproxyOptions {
  /** Another build of it. */
  readonly command?: string
  /** As it comes, without `option splice-auto`; it is `haproxy-copy` then. */
  readonly copies?: boolean
  readonly mainlyFor?: readonly string[]
}

/** HAProxy, TCP only: it has no proxy for UDP. */
export const haproxyTarget = ({
  command = haproxy.command,
  copies = false,
  mainlyFor,
}: HaproxyOptions = {}): Target => {
  const name = copies ? 'haproxy-copy' : 'haproxy'
  const splicing = copies ? 'without splice-auto, as it comes' : 'splice-auto'
  return {
    name,
    title: `HAProxy, mode tcp, one thread, ${splicing}`,
    kind: 'peer',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: () => programProblem({ ...haproxy, command }),
    start: order =>
      startByFile(order, {
        ...asFile,
        name,
        content: (services, directory) =>
          haproxyConfig(services.map(slotted), socketIn(directory), {
            splices: !copies,
            isToBeReplaced: order.isToBeReplaced === true,
          }),
        argv: (file, directory, before) => [
          command,
          '-db',
          '-f',
          file,
          // It gets the listening sockets from the one before, and tells it to finish.
          ...(before === undefined
            ? []
            : ['-x', socketIn(directory), '-sf', String(before)]),
        ],
        replaced: 'by another',
        // It tells of every server that is switched on or off, and that it was replaced.
        ordinary: /Server \S+ (?:is|was) |NOTICE|^$|Proxy \S+ stopped/,
        changes: serverChanges,
      }),
  }
}

const asFile = { file: 'haproxy.cfg', onlyTcp: true } as const

/** Of the runtime API. */
const socketIn = (directory: string): string => join(directory, 'stats')

/** One backend server: where it leads, or undefined for a spare. */
type Slot = Endpoint | undefined

interface HaproxyService {
  readonly name: string
  readonly listen: Endpoint
  readonly slots: readonly Slot[]
}

/** Spares beyond this many services would be hundreds of thousands of servers. */
const fewServices = 100
const slotsOfFew = 16

/** With servers for the endpoints, and spares for those that may come. */
const slotted = (
  { name, listen, endpoints }: Placed,
  _index: number,
  all: readonly Placed[],
): HaproxyService => {
  const count = Math.max(endpoints.length, all.length <= fewServices ? slotsOfFew : 0)
  return {
    name,
    listen,
    slots: Array.from({ length: count }, (_, index) => endpoints[index]),
  }
}

/** How server `index` of a service is called. */
const serverName = (index: number): string => `s${index + 1}`

interface HaproxySetting {
  /**
   * `option splice-auto`: HAProxy's own heuristics choose splice(2) for bulk data. It is
   * not on by default.
   */
  readonly splices: boolean
  /** Where `option tcplog` writes, as `log` has it; no log without it. */
  readonly log?: string
  /** With what a reload without refused connections needs, and an end after a second. */
  readonly isToBeReplaced?: boolean
}

/**
 * HAProxy as one would set it up to be fast with one thread, as all others have one.
 * `maxconn` is not set: HAProxy takes what the limit of open files allows.
 * `timeout connect` is the first step of Usher's dial ladder, so that both leave a silent
 * endpoint after the same time; `redispatch 1` has each retry go to another server, but
 * that may have failed this connection before: with four of six dead, 6 retries fail one
 * connection in ten, 20 one in hundreds. No target has active health checks.
 */
const haproxyConfig = (
  services: readonly HaproxyService[],
  socket: string,
  { splices, log, isToBeReplaced = false }: HaproxySetting,
): string => `\
global
  nbthread 1
  stats socket ${socket} mode 600 level admin${isToBeReplaced ? ' expose-fd listeners' : ''}
${isToBeReplaced ? '  hard-stop-after 1s\n' : ''}\
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
  bind ${hostPort(listen)}
${slots.map(server).join('')}`

const server = (slot: Slot, index: number): string =>
  slot === undefined
    ? `  server ${serverName(index)} 127.0.0.1:1 disabled\n`
    : `  server ${serverName(index)} ${hostPort(slot)}\n`

/** By its runtime API. Remembers which server leads where. */
const serverChanges = (
  services: readonly Placed[],
  directory: string,
): RunningTarget['setEndpoints'] => {
  const known = new Map(services.map(slotted).map(({ name, slots }) => [name, slots]))
  return async (service, endpoints) => {
    const slots = known.get(service)
    if (slots === undefined) throw new Error(`there is no service ${service}`)
    const plan = planSlots(service, slots, endpoints)
    known.set(service, plan.slots)
    await runCommands(socketIn(directory), plan.commands)
  }
}

export interface SlotPlan {
  readonly slots: readonly Slot[]
  /** For HAProxy's runtime API, in this order. */
  readonly commands: readonly string[]
}

/**
 * How the servers of `service` come to lead to `wanted`: those that already do are left
 * alone, new endpoints come before old ones go. Throws when there are too few servers.
 */
export const planSlots = (
  service: string,
  slots: readonly Slot[],
  wanted: readonly Endpoint[],
): SlotPlan => {
  if (wanted.length > slots.length)
    throw new Error(`${service} has ${slots.length} servers, not ${wanted.length}`)
  const next: Slot[] = slots.map(slot =>
    wanted.some(endpoint => same(slot, endpoint)) ? slot : undefined,
  )
  const arriving = wanted.filter(endpoint => !next.some(slot => same(slot, endpoint)))
  for (const endpoint of arriving) next[next.indexOf(undefined)] = endpoint
  const changed = [...next.keys()].filter(index => !same(slots[index], next[index]))
  const commands = [
    ...changed.filter(index => next[index] !== undefined),
    ...changed.filter(index => next[index] === undefined),
  ].flatMap(index => commandsFor(`${service}/${serverName(index)}`, next[index]))
  return { slots: next, commands }
}

const same = (one: Slot, other: Slot): boolean =>
  one?.address === other?.address && one?.port === other?.port

const commandsFor = (name: string, slot: Slot): readonly string[] =>
  slot === undefined
    ? [`set server ${name} state maint`]
    : [
        `set server ${name} addr ${slot.address} port ${slot.port}`,
        `set server ${name} state ready`,
      ]

const answersWithinMs = 5000

/** Has HAProxy carry out commands. Rejects with what it says to one that it refuses. */
const runCommands = async (
  socket: string,
  commands: readonly string[],
): Promise<void> => {
  if (commands.length === 0) return
  const connection = connect(socket)
  connection.setTimeout(answersWithinMs, () =>
    connection.destroy(new Error(`HAProxy gave no answer in ${answersWithinMs} ms`)),
  )
  connection.end(`${commands.join(';')}\n`)
  const answer = await text(connection)
  const refused = answer.split('\n').find(line => line.trim() !== '' && !isFine(line))
  if (refused !== undefined) throw new Error(`HAProxy: ${refused}`)
}

/** It is silent about a state, and tells of an address what has become of it. */
const isFine = (line: string): boolean => /changed from|no need to change/i.test(line)

/** HAProxy with `option tcplog`; to a file by its standard output, as it writes none itself. */
export const loggedHaproxy = (to: LogTo): Target => ({
  name: `haproxy-log-${to}`,
  title: `HAProxy, mode tcp, one thread, splice-auto, option tcplog, to ${to}`,
  kind: 'peer',
  mainlyFor: ['sidecar'],
  unsupportedReason: () => programProblem(haproxy),
  start: order =>
    withReceiver(order, to, syslog =>
      startByFile(order, {
        ...asFile,
        name: 'haproxy-log',
        content: (services, directory) =>
          haproxyConfig(
            services.map(one => ({ ...one, slots: one.endpoints })),
            socketIn(directory),
            { splices: true, log: syslog ? hostPort(syslog) : 'stdout format raw' },
          ),
        argv: (file, directory) => {
          const script = `exec ${haproxy.command} -db -f "$0" > "$1"`
          return ['sh', '-c', script, file, join(directory, 'access.log')]
        },
        command: file => `${haproxy.command} -db -f ${file} > access.log`,
      }),
    ),
})

/** HAProxy with health checks, as its manual advises for each protocol. */
export const checkingHaproxy = ({ onlyByTcp = false } = {}): Target => {
  const name = onlyByTcp ? 'haproxy-tcp-check' : 'haproxy-checks'
  return {
    name,
    title: `HAProxy, mode tcp, one thread, ${onlyByTcp ? 'tcp-check' : 'checks by protocol'}`,
    kind: 'peer',
    mainlyFor: ['sidecar'],
    unsupportedReason: () => programProblem(haproxy),
    start: order =>
      startByFile(order, {
        ...asFile,
        name,
        content: services =>
          checkingHead + services.map(one => checkingSection(one, onlyByTcp)).join(''),
        // With a master, which starts another process at SIGUSR2 and has it take over (-sf).
        argv: file => [haproxy.command, '-W', '-db', '-f', file],
        ordinary:
          /NOTICE|Server \S+ is |backend '?\S+'? has no server|^$|Proxy \S+ stopped|exited/,
        changes: 'SIGUSR2',
      }),
  }
}

/** The timeouts are long where clients may be idle, and that to connect is for a LAN. */
const checkingHead = `\
global
  nbthread 1
defaults
  mode tcp
  balance roundrobin
  option redispatch 1
  retries 3
  timeout connect 1s
  timeout check 2s
  timeout client 1h
  timeout server 1h
  timeout queue 5s
`

const checkingSection = (
  { name, listen, endpoints, care }: Placed,
  onlyByTcp: boolean,
): string => {
  const most = care?.maxConnections === undefined ? '' : ` maxconn ${care.maxConnections}`
  return [
    `listen ${name}`,
    `  bind ${hostPort(listen)}`,
    ...(care?.leastConnections ? ['  balance leastconn'] : []),
    ...(care === undefined || care.check === 'none' ? [] : checkLines(care, onlyByTcp)),
    ...endpoints.map(
      (to, index) => `  server ${serverName(index)} ${hostPort(to)}${most}`,
    ),
    '',
  ].join('\n')
}

/** fastinter: a server that is about to turn is asked every second. */
const checkLines = (care: Care, onlyByTcp: boolean) => [
  `  option ${onlyByTcp ? 'tcp-check' : optionOf(care)}`,
  `  default-server check inter 2s fastinter 1s fall 3 rise 2${
    care.port === undefined || onlyByTcp ? '' : ` port ${care.port}`
  }${care.resets ? ' on-marked-down shutdown-sessions' : ''}`,
]

const optionOf = ({ check, path }: Care): string => {
  const options: Readonly<Record<CheckKind, string>> = {
    none: '',
    tcp: 'tcp-check',
    http: `httpchk GET ${path ?? '/'}`,
    redis: 'redis-check',
    postgres: 'pgsql-check user postgres',
  }
  return options[check]
}
