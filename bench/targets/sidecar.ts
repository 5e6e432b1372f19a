import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Care } from '../services.ts'
import { hostPort, type Placed, startByFile } from './proxy.ts'
import { type LogTo, withReceiver } from './receiver.ts'
import type { Target } from './target.ts'
import { ownCommand, replaceable, usherProblem } from './usher.ts'

export interface SidecarOptions {
  readonly name: string
  /** Learns from connections alone. */
  readonly passive?: boolean
  /** Clients wait for an endpoint. */
  readonly holds?: boolean
  /** 1 when it is not said. */
  readonly workers?: number
  /** So many ranges of clients are denied, none of which comes. */
  readonly denied?: number
}

/** `usher sidecar --config`, with one worker as by default. */
export const sidecarTarget = (options: SidecarOptions): Target => {
  const { name, passive = false, holds = false, workers, denied } = options
  const how = [
    passive ? 'without checks' : 'with checks',
    ...(holds ? ['and hold'] : []),
    ...(workers === undefined ? [] : [`${workers} workers`]),
    ...(denied === undefined ? [] : [`${denied} ranges denied`]),
  ]
  const flags = [
    ...(workers === undefined ? [] : [`--relay-workers=${workers}`]),
    '--log-format=json',
  ]
  return {
    ...sidecar,
    name,
    title: `usher sidecar --config, ${how.join(' ')}`,
    start: order =>
      startByFile(order, {
        ...asFile(flags, replaceable(order)),
        name,
        content: (services, directory) => {
          const deny = denied === undefined ? {} : { deny: [ranges(directory, denied)] }
          return routesText(services.map(one => ({ ...routeOf(one, options), ...deny })))
        },
        changes: 'SIGHUP',
        replaced: 'by another',
      }),
  }
}

/** `usher sidecar` with one worker and an access log in HAProxy's form. */
export const loggedSidecar = (to: LogTo): Target => ({
  ...sidecar,
  name: `sidecar-log-${to}`,
  title: `usher sidecar, accessLog: tcplog, to ${to}`,
  start: order =>
    withReceiver(order, to, syslog =>
      startByFile(order, {
        ...asFile([]),
        name: 'sidecar-log',
        onlyTcp: true,
        content: (services, directory) => {
          const accessLogTo = syslog
            ? `syslog:udp://${hostPort(syslog)}`
            : `file:${join(directory, 'access.log')}`
          const logged = { accessLog: 'tcplog', accessLogTo }
          return routesText(services.map(one => ({ ...plainRoute(one), ...logged })))
        },
      }),
    ),
})

const sidecar = {
  kind: 'usher',
  mainlyFor: ['sidecar'],
  unsupportedReason: async () => usherProblem(),
} as const

const shared = [
  '--metrics-bind-address=off',
  '--healthz-bind-address=off',
  // Warnings tell of endpoints that fail, which is what they do here.
  '--log-level=error',
]

const asFile = (
  flags: readonly string[],
  inDirectory: (directory: string) => readonly string[] = () => [],
) => {
  const given = (file: string) => [
    'sidecar',
    `--config=${file}`,
    ...flags,
    ...inDirectory(dirname(file)),
    ...shared,
  ]
  return {
    file: 'routes.json',
    argv: (file: string) => [...ownCommand(), ...given(file)],
    command: (file: string) => ['usher', ...given(file)].join(' '),
  }
}

const routesText = (routes: readonly object[]): string =>
  `{"routes":[\n${routes.map(route => JSON.stringify(route)).join(',\n')}\n]}\n`

/** A file of ranges: each second /28 from 11.0.0.0 on, so that none can be merged with the next. */
const ranges = (directory: string, count: number): string => {
  const lines = Array.from({ length: count }, (_, i) => {
    const first = 11 * 2 ** 24 + i * 32
    return `${[24, 16, 8, 0].map(bits => (first >>> bits) & 255).join('.')}/28`
  })
  const file = join(directory, 'denied.txt')
  writeFileSync(file, lines.join('\n'))
  return `file:${file}`
}

/** Without a name, which would take room: a file has 64 KiB at most. */
const plainRoute = ({ protocol, listen, endpoints }: Placed): object => ({
  listen: `${protocol.toLowerCase()}://${hostPort(listen)}`,
  endpoints: endpoints.map(hostPort),
})

const routeOf = (service: Placed, options: SidecarOptions): object => ({
  ...plainRoute(service),
  ...(service.care && careOf(service.care, options)),
})

const careOf = (
  care: Care,
  { passive = false, holds = false }: SidecarOptions,
): object => ({
  ...(passive || care.check === 'none' ? {} : { check: checkOf(care) }),
  ...(!passive && care.resets && { onDown: 'reset' }),
  ...(care.replays && { replay: '1k', answerWithin: '2s' }),
  ...(holds && { hold: '30s' }),
  ...(care.leastConnections && { balance: 'least-connections' }),
  ...(care.maxConnections !== undefined && { maxConnections: care.maxConnections }),
})

const checkOf = ({ check, path, port }: Care): string =>
  check === 'http'
    ? `http://${port === undefined ? '' : `:${port}`}${path ?? '/'}`
    : check
