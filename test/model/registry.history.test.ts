import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change } from '../../src/model/service.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import { endpoint, node, portSpec, put, service, slice } from '../support/objects.ts'

const namespace = fc.constantFrom('default', 'other')
const serviceName = fc.constantFrom('a', 'b', 'c')
const protocol = fc.constantFrom('TCP' as const, 'UDP' as const)
const portName = fc.constantFrom('', 'http')
const vip = fc.constantFrom('10.0.0.1', '10.0.0.2', 'fd00::1', 'fd00::2')
const policy = fc.constantFrom('Cluster' as const, 'Local' as const)
const hints = (name: string) => fc.constantFrom([], [name], ['x'], [name, 'x'])
const ports = fc.array(
  fc
    .record({
      name: portName,
      protocol,
      port: fc.constantFrom(80, 81),
      nodePort: fc.constantFrom(0, 30080),
    })
    .map(over => portSpec(over)),
  { maxLength: 2 },
)
const anyService = fc
  .record({
    namespace,
    name: serviceName,
    createdAt: fc.nat(1),
    clusterIPs: fc.uniqueArray(vip, { minLength: 1, maxLength: 2 }),
    externalIPs: fc.array(vip, { maxLength: 2 }),
    loadBalancerIPs: fc.array(vip, { maxLength: 1 }),
    ports,
    affinityMs: fc.nat(1),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    sourceRanges: fc.constantFrom(undefined, [], ['10.0.0.0/8'], ['fd00::/8']),
    healthCheckNodePort: fc.constantFrom(0, 0, 32000),
  })
  .map(({ name, ...over }) => service(name, over))
const anyEndpoint = fc
  .record({
    address: fc.constantFrom('10.1.0.1', '10.1.0.2', '10.1.0.10'),
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    nodeName: fc.constantFrom('', 'n', 'm'),
    zone: fc.constantFrom('', 'z'),
    zoneHints: hints('z'),
    nodeHints: hints('n'),
  })
  .map(({ address, ...over }) => endpoint(address, over))
const anySlice = fc
  .record({
    namespace,
    name: fc.constantFrom('s', 't', 'u'),
    serviceName,
    family: fc.constantFrom('IPv4' as const, 'IPv6' as const),
    endpoints: fc.array(anyEndpoint, { maxLength: 3 }),
    ports,
    lastChangeTriggerTime: fc.nat(2),
  })
  .map(({ endpoints, ...over }) => slice(endpoints, over))
const anyNode = fc
  .record({
    name: fc.constantFrom('n', 'm'),
    zone: fc.constantFrom('', 'z', 'x'),
    // Of both families: what one has no more is remembered, and then the history counts.
    addresses: fc.constantFrom(['10.9.9.9', 'fd00::8'], ['192.0.2.1', 'fd00::9']),
  })
  .map(({ name, ...over }) => node(name, over))

type Look = 'no' | 'snapshot' | 'a step' | 'problems'

const step = fc
  .record({
    object: fc.oneof(
      { arbitrary: anyService, weight: 3 },
      { arbitrary: anySlice, weight: 3 },
      { arbitrary: anyNode, weight: 1 },
    ),
    gone: fc.boolean(),
    look: fc.constantFrom<Look[]>('no', 'snapshot', 'a step', 'problems'),
  })
  .map(({ object, gone, look }) => {
    const change = put(object)
    const goes = gone && change.kind !== 'Node'
    return { change: goes ? { ...change, object: undefined } : change, look }
  })

const identityOf = (change: Change): string =>
  'namespace' in change
    ? `${change.kind} ${change.namespace}/${change.name}`
    : `${change.kind} ${change.name}`

const history = fc.array(step, { maxLength: 30 }).chain(steps => {
  const last = new Map(steps.map(({ change }) => [identityOf(change), change]))
  const finals = [...last.values()].filter(({ object }) => object !== undefined)
  const all = { minLength: finals.length, maxLength: finals.length }
  return fc.tuple(fc.constant(steps), fc.shuffledSubarray(finals, all))
})

/** Maps as lists: their order counts too. */
const stateOf = (registry: Registry) => [
  ...ipFamilies.map(family => [
    [...registry.snapshot(family).servicePorts],
    [...registry.snapshot(family).healthChecks],
  ]),
  registry.problems(),
  registry.node(),
]

const looks: Record<Look, (registry: Registry) => unknown> = {
  no: () => {},
  snapshot: registry => registry.snapshot('IPv6'),
  'a step': registry => registry.rebuild(() => false),
  problems: registry => registry.problems(),
}

/** What comes of any sequence of changes, looked at in between or not. */
t.test('any history', async t => {
  t.test('any order of arrival ends in the state of the final objects', async () => {
    fc.assert(
      fc.property(history, ([steps, finals]) => {
        const registry = new Registry({ nodeName: 'n' })
        let batch: Change[] = []
        for (const { change, look } of steps) {
          batch.push(change)
          if (look === 'no') continue
          registry.apply(batch)
          batch = []
          looks[look](registry)
        }
        registry.apply(batch)
        const fresh = new Registry({ nodeName: 'n' })
        fresh.apply(finals)
        assert.deepStrictEqual(stateOf(registry), stateOf(fresh))

        registry.checkout()
        const before = ipFamilies.map(family => registry.snapshot(family))
        const problems = registry.problems()
        registry.apply(structuredClone(finals))
        assert.deepEqual(registry.pending(), { services: 0, endpoints: 0 })
        assert(before.every(snapshot => snapshot === registry.snapshot(snapshot.family)))
        assert.equal(registry.problems(), problems)
      }),
      { numRuns: 500 },
    )
  })

  t.test('what went and came back leaves every object where it was', async () => {
    fc.assert(
      fc.property(history, fc.boolean(), ([, finals], steps) => {
        const registry = new Registry({ nodeName: 'n' })
        registry.apply(finals)
        const before = ipFamilies.map(family => registry.snapshot(family))
        registry.apply(finals.map(change => ({ ...change, object: undefined })))
        // Rebuilding without them, and nobody looks.
        if (steps) while (!registry.rebuild(() => false));
        registry.apply(structuredClone(finals))
        assert(before.every(snapshot => snapshot === registry.snapshot(snapshot.family)))
      }),
      { numRuns: 300 },
    )
  })
})
