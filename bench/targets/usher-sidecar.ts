import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { joinHostPort } from '../../src/util/ip.ts'
import type { BenchService, Care, Endpoint } from '../services.ts'
import { endpointChanges } from './endpoint-changes.ts'
import { nodePorts } from './node-ports.ts'
import { startProxy } from './start-proxy.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import type { Order, Target } from './target.ts'
import { ownCommand, usherProblem } from './usher-program.ts'

export interface SidecarOptions {
  readonly name: string
  /** A directory of it is made under this. */
  readonly workDir: string
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
  return {
    name,
    title: `usher sidecar --config, ${how.join(' ')}`,
    kind: 'usher',
    mainlyFor: ['sidecar'],
    unsupportedReason: async () => usherProblem({}),
    start: order => start(order, options),
  }
}

const flags = [
  '--metrics-bind-address=off',
  '--healthz-bind-address=off',
  '--drain-timeout=0s',
  // Warnings tell of endpoints that fail, which is what they do here.
  '--log-level=error',
  '--log-format=json',
]

const start = async (order: Order, options: SidecarOptions) => {
  const { name, workDir, workers, denied = 0 } = options
  const directory = await targetDirectory(workDir, name)
  const addresses = await nodePorts(order.lane, order.services)
  const services = [...order.services]
  const file = join(directory, 'routes.json')
  const deny = denied > 0 ? await writeRanges(directory, denied) : undefined
  const write = async (): Promise<string> => {
    const routes = services.flatMap(service => {
      const listen = addresses.get(service.name)
      return listen === undefined
        ? []
        : [{ ...routeOf(service, listen, options), ...(deny && { deny }) }]
    })
    const text = `{"routes":[\n${routes.map(route => JSON.stringify(route)).join(',\n')}\n]}\n`
    await writeFile(`${file}.new`, text)
    await rename(`${file}.new`, file)
    return text
  }
  const threads = workers === undefined ? [] : [`--relay-workers=${workers}`]
  const given = ['sidecar', `--config=${file}`, ...threads, ...flags]
  return startProxy(order, {
    name,
    argv: [...ownCommand(), ...given],
    command: ['usher', ...given].join(' '),
    config: shownPart(await write()),
    addresses,
    directory,
    setEndpoints: endpointChanges(services, write, 'SIGHUP'),
  })
}

/** Each second /28 from 11.0.0.0 on, so that none can be merged with the next. */
const writeRanges = async (directory: string, count: number): Promise<string[]> => {
  const lines = Array.from({ length: count }, (_, i) => {
    const first = 11 * 2 ** 24 + i * 32
    return `${[24, 16, 8, 0].map(bits => (first >>> bits) & 255).join('.')}/28`
  })
  const file = join(directory, 'denied.txt')
  await writeFile(file, lines.join('\n'))
  return [`file:${file}`]
}

/** Without a name, which would take room: a file has 64 KiB at most. */
const routeOf = (
  { protocol, endpoints, care }: BenchService,
  listen: Endpoint,
  options: SidecarOptions,
): object => ({
  listen: `${protocol.toLowerCase()}://${place(listen)}`,
  endpoints: endpoints.map(place),
  ...(care && careOf(care, options)),
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

const place = ({ address, port }: Endpoint): string => joinHostPort(address, port)
