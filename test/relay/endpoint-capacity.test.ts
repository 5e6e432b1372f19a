import t from 'tap'
import { Balancer } from '../../src/balance/balancer.ts'
import { OwnCell } from '../../src/balance/cell.ts'
import { noCooldown } from '../../src/balance/cooldown.ts'
import type { Backend } from '../../src/relay/front.ts'
import { CountedEndpoints } from '../../src/relay/counted-endpoints.ts'
import { EndpointCapacity } from '../../src/relay/endpoint-capacity.ts'
import { ownQueues } from '../support/relay-fixture.ts'
import type { RelayListener } from '../../src/relay/relay.ts'
import { SharedPlaces } from '../../src/relay/shared-places.ts'

const backendOf = (key: string, weight: number): Backend => ({
  key,
  address: '127.0.0.1',
  port: 1,
  weight,
  active: 0,
  failures: 0,
  cooldown: new OwnCell(noCooldown),
  replies: undefined,
  get connections() {
    return this.places?.taken ?? 0
  },
})

t.test('another worker may have the last place by when one is taken', async t => {
  const capacity = { maxConnections: 1, queueMs: 1000, mostQueued: 10 }
  const endpoints = [backendOf('a', 1), backendOf('b', 2)]
  const listener: Partial<RelayListener> = { protocol: 'TCP', endpoints, capacity }
  const counted = new CountedEndpoints(2)
  counted.take(listener as RelayListener)
  const { memory } = counted
  const [ofA, ofB] = (memory?.endpoints ?? []).map(one => one.memory)
  if (ofA === undefined || ofB === undefined) throw new Error('both are counted')
  // Asked for when it is known who is not full, and before a place is taken.
  let meanwhile = (): unknown => undefined
  const random = (): number => {
    meanwhile()
    meanwhile = () => undefined
    return 0
  }
  const balancer = new Balancer<Backend>({ now: () => 0 }, random)
  const own = new EndpointCapacity(balancer, ownQueues)
  own.take(capacity, memory)
  for (const [i, one] of endpoints.entries()) one.places = own.placesOf(one, i)
  balancer.setBalance('random')
  balancer.setEndpoints(endpoints)

  meanwhile = () => new SharedPlaces(ofA).take(1)
  t.equal(own.pick('', undefined, undefined), endpoints[1])
  endpoints[1]?.places?.free()
  meanwhile = () => new SharedPlaces(ofB).take(1)
  t.equal(own.pick('', undefined, undefined), 'full')
  t.strictSame(
    [ofA, ofB].map(one => new SharedPlaces(one).taken),
    [1, 1],
  )
})
