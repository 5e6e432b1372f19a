import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change, Service } from '../../src/model/service.ts'
import { joinHostPort } from '../../src/util/ip.ts'
import {
  endpoint,
  gone,
  node,
  notReady,
  portSpec,
  put,
  service,
  slice,
  terminating,
} from '../support/objects.ts'

/** A registry, and the endpoints that its checks find down: `service ip:port`. */
const setUp = (...changes: Change[]) => {
  const down = new Set<string>()
  const asked: string[] = []
  const registry = new Registry({
    nodeName: 'n1',
    judge:
      name =>
      (endpoints, { onDown }) => {
        asked.push(`${name} ${endpoints.map(({ address }) => address).join()}`)
        return ({ address, port }) => {
          const isDown = down.has(`${name} ${joinHostPort(address, port)}`)
          return { isDown, cut: isDown && onDown === 'reset' ? 'down' : undefined }
        }
      },
  })
  registry.apply(changes)
  const portOf = (key = 'default/web:http/TCP') =>
    registry.snapshot('IPv4').servicePorts.get(key)
  return {
    registry,
    asked,
    portOf,
    turn: (name: string, where: string, isDown = true) => {
      if (isDown) down.add(`${name} ${where}`)
      else down.delete(`${name} ${where}`)
      registry.hasTurned(name)
    },
    checked: () =>
      Array.from(
        registry.checked(),
        ([name, all]) => `${name} ${all.map(({ address }) => address).join()}`,
      ),
    reached: (key?: string) => portOf(key)?.reachable.map(({ address }) => address),
  }
}

const checked = (over: Partial<Service> = {}): Change =>
  put(service('web', { onDown: 'keep', ...over }))
const two = put(slice(['10.1.0.1', '10.1.0.2']))

t.test('what may get clients by its slice is checked, of TCP ports', async t => {
  const ports = (['TCP', 'UDP', 'SCTP'] as const).map(protocol => portSpec({ protocol }))
  const all = [
    '10.1.0.1',
    endpoint('10.1.0.2', terminating),
    endpoint('10.1.0.3', notReady),
    endpoint('10.1.0.4', { ready: true, serving: false }),
  ]
  const there = ports.map(({ protocol }) => ({ name: 'http', protocol, port: 8080 }))
  const { checked: found, asked } = setUp(
    checked({ ports }),
    put(slice(all, { ports: there })),
    put(service('plain', { clusterIPs: ['10.0.0.2'] })),
    put(slice(['10.1.0.9'], { name: 'plain-1', serviceName: 'plain' })),
  )
  t.strictSame(found(), ['default/web 10.1.0.1,10.1.0.2,10.1.0.4'])
  t.strictSame(asked, ['default/web 10.1.0.1,10.1.0.2,10.1.0.4'], 'no other is asked for')
})

t.test('one that is down gets no clients until it is up', async t => {
  const { turn, reached, checked: found, portOf } = setUp(checked(), two)
  t.strictSame(reached(), ['10.1.0.1', '10.1.0.2'])
  turn('default/web', '10.1.0.1:8080')
  t.strictSame(reached(), ['10.1.0.2'])
  const [down, up] = portOf()?.endpoints ?? []
  t.match(down, { ready: false, serving: false, isDown: true, cut: undefined })
  t.notOk(up?.isDown)
  t.strictSame(found(), ['default/web 10.1.0.1,10.1.0.2'], 'it is checked all the same')
  turn('default/web', '10.1.0.1:8080', false)
  t.strictSame(reached(), ['10.1.0.1', '10.1.0.2'])
})

t.test('what a slice says goes before what a check says', async t => {
  const { registry, turn, checked: found, portOf } = setUp(checked(), two)
  turn('default/web', '10.1.0.1:8080')
  t.ok(portOf()?.endpoints[0]?.isDown)
  registry.apply([put(slice([endpoint('10.1.0.1', notReady), '10.1.0.2']))])
  t.notOk(portOf()?.endpoints[0]?.isDown)
  t.strictSame(found(), ['default/web 10.1.0.2'])
})

t.test('connections are cut only where it is asked for', async t => {
  const { turn, portOf } = setUp(checked({ onDown: 'reset' }), two)
  turn('default/web', '10.1.0.1:8080')
  t.strictSame(
    portOf()?.endpoints.map(({ cut }) => cut === 'down'),
    [true, false],
  )
})

t.test('without the annotation, and without the Service, nothing is checked', async t => {
  const { registry, turn, reached, checked: found, asked } = setUp(checked(), two)
  turn('default/web', '10.1.0.1:8080')
  t.strictSame(reached(), ['10.1.0.2'])
  registry.apply([put(service('web'))])
  t.strictSame(found(), [])
  t.strictSame(reached(), ['10.1.0.1', '10.1.0.2'], 'all is as the slices say')
  registry.apply([checked()])
  t.equal(found().length, 1)
  registry.apply([gone('Service', 'web')])
  t.strictSame(found(), [])
  const before = asked.length
  turn('default/web', '10.1.0.1:8080')
  t.equal(reached(), undefined, 'a turn that comes late changes nothing')
  t.equal(asked.length, before)
})

t.test('policies, hints and health checks take it for not ready', async t => {
  const at = (address: string, nodeName: string, zone: string) =>
    endpoint(address, { nodeName, zone, zoneHints: [zone] })
  const {
    registry,
    turn,
    reached,
    portOf: port,
  } = setUp(
    checked({
      externalIPs: ['192.0.2.1'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
    }),
    put(slice([at('10.1.0.1', 'n1', 'a'), at('10.1.0.2', 'n2', 'b')])),
    put(node('n1', { zone: 'a' })),
  )
  const healthy = () =>
    registry.snapshot('IPv4').healthChecks.get('default/web')?.localReady
  t.strictSame(reached(), ['10.1.0.1'])
  t.equal(healthy(), 1)
  turn('default/web', '10.1.0.1:8080')
  t.match(port()?.internal.endpoints, [{ address: '10.1.0.2' }])
  t.equal(port()?.external.verdict, 'drop')
  t.equal(healthy(), 0)
})

t.test('a turn builds no other Service anew', async t => {
  const { registry, turn, portOf, asked } = setUp(
    checked(),
    two,
    put(service('other', { clusterIPs: ['10.0.0.2'], onDown: 'keep' })),
    put(slice(['10.1.0.1'], { name: 'other-1', serviceName: 'other' })),
  )
  const other = portOf('default/other:http/TCP')
  const [web, before] = [portOf(), asked.length]
  registry.hasTurned('default/web')
  t.equal(portOf(), web, 'what is as before is the same object')
  turn('default/web', '10.1.0.1:8080')
  t.not(portOf(), web)
  t.equal(portOf('default/other:http/TCP'), other)
  t.strictSame(
    asked.slice(before).map(text => text.split(' ', 1)[0]),
    ['default/web', 'default/web'],
  )
})
