import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Endpoint } from '../services.ts'
import { haproxyConfig, type HaproxyService, slotsFor } from './haproxy-config.ts'
import { planSlots, runHaproxyCommands } from './haproxy-servers.ts'
import { nodePorts } from './node-ports.ts'
import { type Program, programProblem } from './program.ts'
import { startProxy } from './start-proxy.ts'
import type { Order, Target } from './target.ts'
import { shownPart, targetDirectory } from './target-directory.ts'

export const haproxyProgram: Program = {
  command: 'haproxy',
  versionArgs: ['-v'],
  packageName: 'haproxy',
}

export interface PeerOptions {
  /** A directory of it is made under this. */
  readonly workDir: string
  /** Another build of it. */
  readonly command?: string
}

export interface HaproxyOptions extends PeerOptions {
  /** As it comes, without `option splice-auto`; it is `haproxy-copy` then. */
  readonly copies?: boolean
  readonly mainlyFor?: readonly string[]
}

/** HAProxy, TCP only: it has no proxy for UDP. */
export const haproxyTarget = (options: HaproxyOptions): Target => {
  const { command = haproxyProgram.command, copies = false, mainlyFor } = options
  const splicing = copies ? 'without splice-auto, as it comes' : 'splice-auto'
  return {
    name: nameOf(options),
    title: `HAProxy, mode tcp, one thread, ${splicing}`,
    kind: 'peer',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: () => programProblem({ ...haproxyProgram, command }),
    start: order => start(order, command, options),
  }
}

const nameOf = ({ copies = false }: HaproxyOptions): string =>
  copies ? 'haproxy-copy' : 'haproxy'

const start = async (order: Order, command: string, options: HaproxyOptions) => {
  const { workDir, copies = false } = options
  const name = nameOf(options)
  const directory = await targetDirectory(workDir, name)
  const services = order.services.filter(({ protocol }) => protocol === 'TCP')
  const addresses = await nodePorts(order.lane, services)
  const sections = services.flatMap((service): readonly HaproxyService[] => {
    const listen = addresses.get(service.name)
    const slots = slotsFor(service, services.length)
    return listen === undefined ? [] : [{ name: service.name, listen, slots }]
  })
  const socket = join(directory, 'stats')
  const config = haproxyConfig(sections, { socket, splices: !copies })
  const file = join(directory, 'haproxy.cfg')
  await writeFile(file, config)
  return startProxy(order, {
    name,
    argv: [command, '-db', '-f', file],
    config: shownPart(config),
    addresses,
    directory,
    // It tells of every server that is switched on or off.
    ordinary: /Server \S+ (?:is|was) /,
    setEndpoints: serverChanges(sections, socket),
  })
}

/** Remembers which server leads where. */
const serverChanges = (sections: readonly HaproxyService[], socket: string) => {
  const slots = new Map(sections.map(section => [section.name, section.slots]))
  return async (service: string, endpoints: readonly Endpoint[]): Promise<void> => {
    const known = slots.get(service)
    if (known === undefined) throw new Error(`there is no service ${service}`)
    const plan = planSlots(service, known, endpoints)
    slots.set(service, plan.slots)
    await runHaproxyCommands(socket, plan.commands)
  }
}
