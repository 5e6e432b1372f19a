import * as objects from '../../support/objects.ts'
import type { Test } from 'tap'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { noPins, type Pins } from '../../../src/kernel/bpf/pins.ts'
import { compile, compileNodeAddress } from '../../../src/kernel/connect-time/tables.ts'
import type { Features } from '../../../src/kernel/connect-time/programs.ts'
import { Steering } from '../../../src/kernel/connect-time/steering.ts'
import { ElementChanges } from '../../../src/kernel/elements/element-changes.ts'
import type { ServicePort, Vip } from '../../../src/model/snapshot.ts'
import { servicePort } from '../../support/service-ports.ts'
import { type Answer, type Client, makeGroup } from './group.ts'

const features: Features = {
  errors: true,
  avoidsFailed: true,
  node: undefined,
  onlyNode: false,
}
const nodeAddresses = ['192.0.2.1', '2001:db8::1', '127.0.0.1', '::1']

export type To = readonly (readonly [address: string, port: number])[]

/** Without endpoints it refuses. */
export const serviceTo = (
  name: string,
  vips: readonly Vip[],
  to: To,
  over: Partial<ServicePort> = {},
): ServicePort => {
  const endpoints = to.map(([address, port]) => ({ ...objects.endpoint(address), port }))
  const verdict = endpoints.length === 0 ? ('reject' as const) : ('forward' as const)
  const target = { verdict, endpoints }
  const all = { internal: target, external: target, externalFromNode: target }
  return servicePort(name, { vips, endpoints, reachable: endpoints, ...all, ...over })
}

/** What leads from some Services to others. */
export const changesTo = (
  services: readonly ServicePort[],
  before: readonly ServicePort[] = [],
): ElementChanges => {
  const changes = new ElementChanges()
  for (const one of services) for (const each of compile(one)) changes.come(each)
  for (const one of before) for (const each of compile(one)) changes.gone(each)
  for (const one of nodeAddresses) changes.come(compileNodeAddress(one))
  return changes
}

export const makeSteering = (
  cgroup: string,
  {
    bpf = new Bpf(),
    pins = noPins,
    ...over
  }: Partial<Features> & { bpf?: Bpf; pins?: Pins } = {},
): Steering =>
  new Steering({
    bpf,
    pins,
    cgroup,
    features: { ...features, ...over },
    sizes: { services: 100, slots: 100, members: 100, sockets: 1000 },
  })

/** Steering of a client's cgroup to these Services, which may be others later. */
export const makeStage = async (t: Test, over: Partial<Features> = {}) => {
  const group = await makeGroup()
  const client = await group.client()
  const steering = makeSteering(group.path, over)
  t.teardown(() => steering.close())
  steering.attach()
  let served: readonly ServicePort[] = []
  const serve = async (...services: ServicePort[]): Promise<void> => {
    await steering.writer.write(changesTo(services, served))
    served = services
  }
  return { group, client, serve, steering }
}

export const endpointsAt = async (client: Client, ...addresses: string[]): Promise<To> =>
  Promise.all(addresses.map(async each => [each, await client.serve(each)] as const))

/** How often each has answered. */
export const tally = async (
  count: number,
  dial: () => Promise<Answer>,
): Promise<Record<string, number>> => {
  const found: Record<string, number> = {}
  for (let i = 0; i < count; i += 1) {
    const { said, error } = await dial()
    const who = said?.split(' ')[0] ?? error ?? ''
    found[who] = (found[who] ?? 0) + 1
  }
  return found
}
