import * as objects from '../../support/objects.ts'
import type { Form } from '../../../src/kernel/nftables/compile.ts'
import { NftablesProxier } from '../../../src/kernel/nftables/nftables-proxier.ts'
import { Monitor, spawnMonitor } from '../../../src/kernel/nft/monitor.ts'
import { tableOf } from '../../../src/kernel/nft/tables.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { ServicePort, Snapshot, Vip } from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { netnsProblem } from '../../support/netns.ts'
import { clusterIp, servicePort } from '../../support/service-ports.ts'
import { type Listing, parseListing } from './listing.ts'

const why = await netnsProblem('nft')
export const skip = why === '' ? false : why

export interface World {
  /** In the namespace that its rules are in. */
  readonly run: RunTool
  readonly clock: FakeClock
  /** `ip usher-services`. */
  readonly table: string
  readonly told: string[]
  /** All that nft was given to do, last one last. */
  readonly inputs: string[]
  /** One of a process of its own. */
  readonly proxier: (form?: Form) => NftablesProxier
  /** `ip usher-services` as it is. */
  readonly list: (table?: string) => Promise<Listing>
}

export interface WorldOptions {
  readonly family?: IpFamily
  readonly run?: RunTool
  /** Around the runner of tools that the proxier is given. */
  readonly around?: (run: RunTool) => RunTool
}

export const makeWorld = async ({
  family = 'IPv4',
  run: given,
  around = each => each,
}: WorldOptions = {}): Promise<World> => {
  const run = given ?? (await makeNetnsShell())
  const clock = new FakeClock()
  const told: string[] = []
  const inputs: string[] = []
  const table = tableOf(family, 'usher-services')
  const record: RunTool = (command, args, options) => {
    if (options?.input !== undefined) inputs.push(options.input)
    return run(command, args, options)
  }
  const observer = {
    restoreFailed: (of: IpFamily, work: string) => void told.push(`${of} ${work}`),
    failed: (what: string, reason: string) => void told.push(`${what}: ${reason}`),
  }
  return {
    run,
    clock,
    table,
    told,
    inputs,
    proxier: (form = 'shared') =>
      new NftablesProxier(family, {
        run: around(record),
        clock,
        observer,
        monitor: new Monitor({ clock, spawn: spawnMonitor, tables: ['usher-services'] }),
        table,
        form: () => form,
      }),
    list: async (name = table) =>
      parseListing(await run('nft', ['list', 'table', ...name.split(' ')])),
  }
}

export const snapshotOf = (
  servicePorts: Iterable<ServicePort>,
  family: IpFamily = 'IPv4',
): Snapshot => ({
  family,
  servicePorts: new Map([...servicePorts].map(each => [each.key, each])),
  healthChecks: new Map(),
})

/** At each VIP the same endpoints for all clients; without one it is refused. */
export const serviceOf = (
  name: string,
  vips: readonly Vip[],
  addresses: readonly string[],
  over: Partial<ServicePort> = {},
): ServicePort => {
  const endpoints = addresses.map(address => ({
    ...objects.endpoint(address),
    port: 8080,
  }))
  const verdict = endpoints.length === 0 ? ('reject' as const) : ('forward' as const)
  const target = { verdict, endpoints }
  return servicePort(name, {
    vips,
    endpoints,
    internal: target,
    external: target,
    externalFromNode: target,
    reachable: endpoints,
    ...over,
  })
}

/** So many with two endpoints each. */
export const manyServices = (count: number, port = 80): readonly ServicePort[] =>
  Array.from({ length: count }, (_, n) => {
    const rest = `${(n >> 8) & 255}.${n & 255}`
    return serviceOf(
      `many-${n}`,
      [clusterIp(`10.${96 + (n >> 16)}.${rest}`, port)],
      [`10.244.${rest}`, `10.245.${rest}`],
    )
  })
