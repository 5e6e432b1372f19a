import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BenchService, Care, CheckKind, Endpoint } from '../services.ts'
import { haproxyProgram, type PeerOptions } from './haproxy.ts'
import { endpointChanges } from './endpoint-changes.ts'
import { nodePorts } from './node-ports.ts'
import { programProblem } from './program.ts'
import { startProxy } from './start-proxy.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import type { Order, Target } from './target.ts'

export interface HaproxyChecksOptions extends Pick<PeerOptions, 'workDir'> {
  /** Whether the server accepts is all that is checked. */
  readonly onlyTcp?: boolean
}

/** HAProxy with health checks, as its manual advises for each protocol. */
export const haproxyChecksTarget = (options: HaproxyChecksOptions): Target => {
  const { onlyTcp = false } = options
  return {
    name: nameOf(options),
    title: `HAProxy, mode tcp, one thread, ${onlyTcp ? 'tcp-check' : 'checks by protocol'}`,
    kind: 'peer',
    mainlyFor: ['sidecar'],
    unsupportedReason: () => programProblem(haproxyProgram),
    start: order => start(order, options),
  }
}

const nameOf = ({ onlyTcp = false }: HaproxyChecksOptions): string =>
  onlyTcp ? 'haproxy-tcp-check' : 'haproxy-checks'

const start = async (order: Order, options: HaproxyChecksOptions) => {
  const name = nameOf(options)
  const directory = await targetDirectory(options.workDir, name)
  const services = order.services.filter(({ protocol }) => protocol === 'TCP')
  const addresses = await nodePorts(order.lane, services)
  const file = join(directory, 'haproxy.cfg')
  const write = async (): Promise<string> => {
    const sections = services.flatMap(service => {
      const listen = addresses.get(service.name)
      return listen === undefined ? [] : [section(service, listen, options)]
    })
    const config = head + sections.join('')
    await writeFile(`${file}.new`, config)
    await rename(`${file}.new`, file)
    return config
  }
  return startProxy(order, {
    name,
    // With a master, which starts another process at SIGUSR2 and has it take over (-sf).
    argv: [haproxyProgram.command, '-W', '-db', '-f', file],
    config: shownPart(await write()),
    addresses,
    directory,
    ordinary:
      /NOTICE|Server \S+ is |backend '?\S+'? has no server|^$|Proxy \S+ stopped|exited/,
    setEndpoints: endpointChanges(services, write, 'SIGUSR2'),
  })
}

/** The timeouts are long where clients may be idle, and that to connect is for a LAN. */
const head = `\
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

const section = (
  { name, endpoints, care }: BenchService,
  { address, port }: Endpoint,
  options: HaproxyChecksOptions,
): string =>
  [
    `listen ${name}`,
    `  bind ${address}:${port}`,
    ...(care?.leastConnections ? ['  balance leastconn'] : []),
    ...(care === undefined || care.check === 'none' ? [] : checkLines(care, options)),
    ...endpoints.map(
      (to, index) => `  server s${index + 1} ${to.address}:${to.port}${mostOf(care)}`,
    ),
    '',
  ].join('\n')

const mostOf = ({ maxConnections }: Partial<Care> = {}): string =>
  maxConnections === undefined ? '' : ` maxconn ${maxConnections}`

/** fastinter: a server that is about to turn is asked every second. */
const checkLines = (care: Care, { onlyTcp = false }: HaproxyChecksOptions) => [
  `  option ${onlyTcp ? 'tcp-check' : optionOf(care)}`,
  `  default-server check inter 2s fastinter 1s fall 3 rise 2${
    care.port === undefined || onlyTcp ? '' : ` port ${care.port}`
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
