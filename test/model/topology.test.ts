import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import type { EndpointSpec, TrafficPolicy } from '../../src/model/service.ts'
import type { Endpoint, Target } from '../../src/model/snapshot.ts'
import {
  categorizeEndpoints,
  type Place,
  leftOutReasons,
} from '../../src/model/topology.ts'
import { endpoint, notReady, terminating } from '../support/objects.ts'

/** Endpoints by what a test calls them. */
type Named = Record<string, Partial<EndpointSpec>>
/** Names in order, or the verdict over none. */
type Outcome = string[] | 'drop' | 'reject'

interface Case {
  readonly why: string
  readonly endpoints: Named
  readonly internal?: TrafficPolicy
  /** Undefined: only a ClusterIP leads to it. */
  readonly external?: TrafficPolicy
  readonly place?: Place
  readonly expected: {
    readonly internal: Outcome
    readonly external?: Outcome
    readonly fromNode?: Outcome
    /** Where it is not the longest of the others. */
    readonly reachable?: string[]
  }
}

const here = { nodeName: 'here' }
const there = { nodeName: 'there' }
const dead = { ready: false, serving: false, terminating: true }
const inA = { zoneHints: ['a'] }
const inB = { zoneHints: ['b'] }
const onHere = { nodeHints: ['here'] }
const onThere = { nodeHints: ['there'] }
const home: Place = { nodeName: 'here', zone: 'a' }

const named = (name: string, over: Partial<EndpointSpec>): Endpoint => ({
  ...endpoint(name, over),
  port: 80,
})
const listOf = (endpoints: Named): Endpoint[] =>
  Object.entries(endpoints).map(([name, over]) => named(name, over))

const names = (list: readonly Endpoint[]): string[] => list.map(({ address }) => address)

const outcome = ({ verdict, endpoints }: Target): Outcome =>
  verdict === 'forward' ? names(endpoints) : verdict

const clusterCases: Case[] = [
  {
    why: 'policy Cluster takes the ready ones wherever they are',
    endpoints: { x: here, y: notReady, z: there },
    external: 'Cluster',
    expected: { internal: ['x', 'z'], external: ['x', 'z'], fromNode: ['x', 'z'] },
  },
  {
    why: 'without any endpoint everybody is refused',
    endpoints: {},
    external: 'Cluster',
    expected: { internal: 'reject', external: 'reject', fromNode: 'reject' },
  },
  {
    why: 'endpoints that are neither ready nor serving are as good as none',
    endpoints: { x: notReady, y: dead },
    external: 'Local',
    expected: { internal: 'reject', external: 'reject', fromNode: 'reject' },
  },
  {
    why: 'while one is ready those that terminate get nothing',
    endpoints: { x: terminating, y: {} },
    expected: { internal: ['y'] },
  },
  {
    why: 'when none is ready those that serve while they terminate take over (KEP-1669)',
    endpoints: { x: notReady, y: terminating, z: dead },
    external: 'Cluster',
    expected: { internal: ['y'], external: ['y'], fromNode: ['y'] },
  },
  {
    why: 'one that serves but is neither ready nor terminating gets nothing',
    endpoints: { x: { ready: false } },
    expected: { internal: 'reject' },
  },
  {
    why: 'publishNotReadyAddresses makes a terminating pod ready, and ready it is',
    endpoints: { x: { ...terminating, ready: true }, y: terminating },
    expected: { internal: ['x'] },
  },
]

const localCases: Case[] = [
  {
    why: 'internalTrafficPolicy Local takes only those of this node',
    endpoints: { x: here, y: there, z: here },
    internal: 'Local',
    expected: { internal: ['x', 'z'] },
  },
  {
    why: 'internalTrafficPolicy Local drops when there are endpoints on other nodes only',
    endpoints: { x: there },
    internal: 'Local',
    expected: { internal: 'drop', reachable: [] },
  },
  {
    why: 'internalTrafficPolicy Local refuses when there is no endpoint anywhere',
    endpoints: { x: { ...notReady, ...here }, y: notReady },
    internal: 'Local',
    expected: { internal: 'reject' },
  },
  {
    why: 'a terminating endpoint elsewhere is enough for a drop',
    endpoints: { x: { ...terminating, ...there } },
    internal: 'Local',
    expected: { internal: 'drop', reachable: [] },
  },
  {
    why: 'local endpoints that terminate serve a Local policy while others elsewhere are ready',
    endpoints: { x: { ...terminating, ...here }, y: there },
    internal: 'Local',
    expected: { internal: ['x'] },
  },
  {
    why: 'a local ready endpoint comes before local ones that terminate',
    endpoints: { x: { ...terminating, ...here }, y: here },
    internal: 'Local',
    expected: { internal: ['y'] },
  },
  {
    why: 'externalTrafficPolicy Local spares who is on the node already',
    endpoints: { x: here, y: there },
    external: 'Local',
    expected: { internal: ['x', 'y'], external: ['x'], fromNode: ['x', 'y'] },
  },
  {
    why: 'externalTrafficPolicy Local drops outsiders and serves the node when all endpoints are elsewhere',
    endpoints: { x: there },
    external: 'Local',
    expected: { internal: ['x'], external: 'drop', fromNode: ['x'] },
  },
  {
    why: 'the two policies do not touch each other: internal Local, external Cluster',
    endpoints: { x: there },
    internal: 'Local',
    external: 'Cluster',
    expected: { internal: 'drop', external: ['x'], fromNode: ['x'] },
  },
  {
    why: 'both Local: only the node itself reaches the others',
    endpoints: { x: here, y: there },
    internal: 'Local',
    external: 'Local',
    expected: { internal: ['x'], external: ['x'], fromNode: ['x', 'y'] },
  },
  {
    why: 'a terminating local endpoint is reachable beside the ready ones of the cluster',
    endpoints: { x: { ...terminating, ...here }, y: there },
    external: 'Local',
    expected: {
      internal: ['y'],
      external: ['x'],
      fromNode: ['y'],
      reachable: ['x', 'y'],
    },
  },
  {
    why: 'without an external VIP the external policy means nothing',
    endpoints: { x: there },
    internal: 'Local',
    expected: { internal: 'drop', external: 'drop', fromNode: 'drop', reachable: [] },
  },
  {
    why: 'without a node name no endpoint is local, not even one that has no node either',
    endpoints: { x: {}, y: there },
    external: 'Local',
    place: { nodeName: '', zone: '' },
    expected: { internal: ['x', 'y'], external: 'drop', fromNode: ['x', 'y'] },
  },
]

const hintCases: Case[] = [
  {
    why: 'zone hints keep traffic in the zone',
    endpoints: { x: inA, y: inB, z: { zoneHints: ['b', 'a'] } },
    external: 'Cluster',
    expected: { internal: ['x', 'z'], external: ['x', 'z'], fromNode: ['x', 'z'] },
  },
  {
    why: 'one ready endpoint without zone hints turns them off for all',
    endpoints: { x: inA, y: inB, z: {} },
    expected: { internal: ['x', 'y', 'z'] },
  },
  {
    why: 'endpoints that are not ready need no hints',
    endpoints: { x: inA, y: inB, z: notReady, w: terminating },
    expected: { internal: ['x'] },
  },
  {
    why: 'no hint for this zone turns zone hints off',
    endpoints: { x: inB, y: inB },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'a hint for this zone on an endpoint that is not ready does not count',
    endpoints: { x: inB, y: { ...inA, ...notReady } },
    expected: { internal: ['x'] },
  },
  {
    why: 'hints mean nothing where this node has no zone',
    endpoints: { x: inA, y: inB },
    place: { nodeName: 'here', zone: '' },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'it is the hint that counts, not the zone that the endpoint is in',
    endpoints: { x: { zone: 'a', ...inB }, y: { zone: 'b', ...inA } },
    expected: { internal: ['y'] },
  },
  {
    why: 'node hints keep traffic on the node',
    endpoints: { x: onHere, y: onThere },
    expected: { internal: ['x'] },
  },
  {
    why: 'node hints come before zone hints',
    endpoints: { x: { ...inA, ...onThere }, y: { ...inA, ...onHere }, z: onThere },
    expected: { internal: ['y'] },
  },
  {
    why: 'one ready endpoint without node hints leaves the choice to zone hints',
    endpoints: { x: { ...inA, ...onHere }, y: { ...inA, ...onThere }, z: inB },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'no node hint for this node leaves the choice to zone hints',
    endpoints: { x: { ...inA, ...onThere }, y: { ...inB, ...onThere } },
    expected: { internal: ['x'] },
  },
  {
    why: 'neither kind for here turns both off',
    endpoints: { x: { ...inB, ...onThere }, y: { ...inB, ...onThere } },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'node hints mean nothing to a proxy that does not know its node',
    endpoints: { x: { nodeHints: [''] }, y: onThere },
    place: { nodeName: '', zone: '' },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'the terminating fallback ignores hints',
    endpoints: { x: { ...terminating, ...inA }, y: { ...terminating, ...inB } },
    expected: { internal: ['x', 'y'] },
  },
  {
    why: 'a Local policy ignores hints',
    endpoints: { x: { ...inB, ...here }, y: { ...inA, ...there } },
    external: 'Local',
    expected: {
      internal: ['y'],
      external: ['x'],
      fromNode: ['y'],
      reachable: ['x', 'y'],
    },
  },
]

const longest = (...outcomes: (Outcome | undefined)[]): string[] =>
  outcomes
    .filter(given => Array.isArray(given))
    .reduce((a, b) => (b.length > a.length ? b : a), [])

for (const each of [...clusterCases, ...localCases, ...hintCases]) {
  t.test(each.why, async t => {
    const { endpoints, internal = 'Cluster', external, place = home, expected } = each
    const policies = {
      internalTrafficPolicy: internal,
      externalTrafficPolicy: external ?? 'Local',
      externallyAccessible: external !== undefined,
    }
    const given = listOf(endpoints)
    const targets = categorizeEndpoints(given, policies, place)
    const other = expected.external ?? expected.internal
    t.strictSame(outcome(targets.internal), expected.internal, 'internal')
    t.strictSame(outcome(targets.external), other, 'external')
    const fromNode = expected.fromNode ?? other
    t.strictSame(outcome(targets.externalFromNode), fromNode, 'from the node')
    const reachable = expected.reachable ?? longest(expected.internal, other, fromNode)
    t.strictSame(names(targets.reachable), reachable, 'reachable')
  })
}

const anyEndpoints = fc
  .array(
    fc.record({
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      nodeName: fc.constantFrom('', 'here', 'there'),
      zoneHints: fc.constantFrom([], ['a'], ['b'], ['a', 'b']),
      nodeHints: fc.constantFrom([], ['here'], ['there']),
    }),
    { maxLength: 6 },
  )
  .map(list => listOf(Object.fromEntries(list.map((over, i) => [`e${i}`, over]))))
const anyPolicy = fc.constantFrom('Cluster' as const, 'Local' as const)
const anyPolicies = fc.record({
  internalTrafficPolicy: anyPolicy,
  externalTrafficPolicy: anyPolicy,
  externallyAccessible: fc.boolean(),
})
const anyPlace = fc.record({
  nodeName: fc.constantFrom('', 'here'),
  zone: fc.constantFrom('', 'a'),
})

t.test('what holds for any endpoints, policies and places', async () => {
  fc.assert(
    fc.property(anyEndpoints, anyPolicies, anyPlace, (endpoints, policies, place) => {
      const targets = categorizeEndpoints(endpoints, policies, place)
      const { internal, external, externalFromNode, reachable } = targets
      const all = [internal, external, externalFromNode]
      const usable = endpoints.some(e => e.ready || (e.serving && e.terminating))
      for (const target of all) {
        assert.equal(target.endpoints.length > 0, target.verdict === 'forward')
        assert.equal(target.verdict === 'reject', !usable)
      }
      const parts = new Set(all.flatMap(target => target.endpoints))
      assert.deepEqual(
        reachable,
        endpoints.filter(each => parts.has(each)),
        'the union, the same objects in the same order',
      )
      if (policies.externallyAccessible) assert.notEqual(externalFromNode.verdict, 'drop')
    }),
    { numRuns: 2000 },
  )
})

t.test('what is left out of a target is told why, and nothing else', async () => {
  fc.assert(
    fc.property(anyEndpoints, anyPolicies, anyPlace, (endpoints, policies, place) => {
      const { internalTrafficPolicy, externalTrafficPolicy, externallyAccessible } =
        policies
      const targets = categorizeEndpoints(endpoints, policies, place)
      const inIt = (asked: TrafficPolicy): readonly Endpoint[] => {
        const left = leftOutReasons(endpoints, asked, place)
        return endpoints.filter(one => !left.has(one))
      }
      assert.deepEqual(inIt(internalTrafficPolicy), targets.internal.endpoints)
      if (!externallyAccessible) return
      assert.deepEqual(inIt(externalTrafficPolicy), targets.external.endpoints)
      assert.deepEqual(inIt('Cluster'), targets.externalFromNode.endpoints)
    }),
    { numRuns: 2000 },
  )
})

t.test('why endpoints are left out', async t => {
  const endpoints = [
    ...listOf({
      here: { ...here, ...inA },
      there: { ...there, ...inB },
      notReady: { ...here, ...notReady },
      leaving: { ...here, ...terminating },
    }),
    { ...named('down', { ...here, ...notReady }), isDown: true as const },
  ]
  const why = (policy: TrafficPolicy) => [
    ...leftOutReasons(endpoints, policy, home).values(),
  ]
  const others = ['not ready', 'terminating', 'down']
  t.strictSame(why('Cluster').toSorted(), [...others, 'hinted elsewhere'].toSorted())
  t.strictSame(why('Local').toSorted(), [...others, 'not on this node'].toSorted())
})
