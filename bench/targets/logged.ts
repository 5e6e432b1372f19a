import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { joinHostPort } from '../../src/util/ip.ts'
import type { Endpoint } from '../services.ts'
import { haproxyConfig } from './haproxy-config.ts'
import { haproxyProgram } from './haproxy.ts'
import { nodePorts } from './node-ports.ts'
import { freePorts } from './probe.ts'
import { programProblem } from './program.ts'
import { ProxyProcess } from './proxy-process.ts'
import { startProxy } from './start-proxy.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import type { Order, RunningTarget, Target } from './target.ts'
import { ownCommand, usherProblem } from './usher-program.ts'

/** Where a line for each connection goes. */
export type LogTo = 'file' | 'syslog'

const local = '127.0.0.1'

/** `usher sidecar` with one worker and an access log in HAProxy's form. */
export const loggedSidecar = (workDir: string, to: LogTo): Target => ({
  name: `sidecar-log-${to}`,
  title: `usher sidecar, accessLog: tcplog, to ${to}`,
  kind: 'usher',
  mainlyFor: ['sidecar'],
  unsupportedReason: async () => usherProblem({}),
  start: order => withReceiver(order, to, syslog => startSidecar(order, workDir, syslog)),
})

/** HAProxy with `option tcplog`; to a file by its standard output, as it writes none itself. */
export const loggedHaproxy = (workDir: string, to: LogTo): Target => ({
  name: `haproxy-log-${to}`,
  title: `HAProxy, mode tcp, one thread, splice-auto, option tcplog, to ${to}`,
  kind: 'peer',
  mainlyFor: ['sidecar'],
  unsupportedReason: () => programProblem(haproxyProgram),
  start: order => withReceiver(order, to, syslog => startHaproxy(order, workDir, syslog)),
})

const startSidecar = async (
  order: Order,
  workDir: string,
  syslog: Endpoint | undefined,
) => {
  const name = 'sidecar-log'
  const { directory, addresses, services } = await placed(order, workDir, name)
  const accessLogTo = syslog
    ? `syslog:udp://${place(syslog)}`
    : `file:${join(directory, 'access.log')}`
  const routes = services.map(({ listen, endpoints }) => ({
    listen: `tcp://${place(listen)}`,
    endpoints: endpoints.map(place),
    accessLog: 'tcplog',
    accessLogTo,
  }))
  const file = join(directory, 'routes.json')
  const text = JSON.stringify({ routes })
  await writeFile(file, text)
  const flags = ['metrics', 'healthz'].map(server => `--${server}-bind-address=off`)
  const given = ['sidecar', `--config=${file}`, ...flags, '--log-level=error']
  return startProxy(order, {
    name,
    argv: [...ownCommand(), ...given],
    command: ['usher', ...given].join(' '),
    config: shownPart(text),
    addresses,
    directory,
  })
}

const startHaproxy = async (
  order: Order,
  workDir: string,
  syslog: Endpoint | undefined,
) => {
  const name = 'haproxy-log'
  const { directory, addresses, services } = await placed(order, workDir, name)
  const sections = services.map(({ name: service, listen, endpoints }) => ({
    name: service,
    listen,
    slots: endpoints,
  }))
  const log = syslog ? place(syslog) : 'stdout format raw'
  const socket = join(directory, 'stats')
  const config = haproxyConfig(sections, { socket, splices: true, log })
  const file = join(directory, 'haproxy.cfg')
  await writeFile(file, config)
  const { command } = haproxyProgram
  const script = `exec ${command} -db -f "$0" > "$1"`
  return startProxy(order, {
    name,
    argv: ['sh', '-c', script, file, join(directory, 'access.log')],
    command: `${command} -db -f ${file} > access.log`,
    config: shownPart(config),
    addresses,
    directory,
  })
}

const placed = async (order: Order, workDir: string, name: string) => {
  const directory = await targetDirectory(workDir, name)
  const tcp = order.services.filter(({ protocol }) => protocol === 'TCP')
  const addresses = await nodePorts(order.lane, tcp)
  const services = tcp.flatMap(service => {
    const listen = addresses.get(service.name)
    return listen === undefined ? [] : [{ ...service, listen }]
  })
  return { directory, addresses, services }
}

/** Reads what comes, as a syslog server would, and does nothing with it. */
const receiver = `const socket = require('node:dgram').createSocket('udp4', () => {})
socket.bind(Number(process.argv[1]), '${local}')`

const withReceiver = async (
  order: Order,
  to: LogTo,
  start: (syslog: Endpoint | undefined) => Promise<RunningTarget>,
): Promise<RunningTarget> => {
  if (to === 'file') return start(undefined)
  const [port = 0] = await freePorts(order.lane, local, 1)
  const server = new ProxyProcess(order.lane, [
    process.execPath,
    '-e',
    receiver,
    String(port),
  ])
  try {
    const target = await start({ address: local, port })
    const stop = async (): Promise<void> => {
      await target.stop()
      await server.stop()
    }
    return { ...target, stop }
  } catch (error) {
    await server.stop()
    throw error
  }
}

const place = ({ address, port }: Endpoint): string => joinHostPort(address, port)
