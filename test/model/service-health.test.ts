import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change, EndpointSpec, Service } from '../../src/model/service.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import {
  endpoint,
  gone,
  notReady,
  portSpec,
  put,
  service,
  slice,
  terminating,
} from '../support/objects.ts'

const balanced = service('web', {
  clusterIPs: ['10.0.0.1', 'fd00::1'],
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 32000,
})
const on = (nodeName: string, over: Partial<EndpointSpec> = {}) => ({ ...over, nodeName })

const registryOf = (...changes: Change[]): Registry => {
  const registry = new Registry({ nodeName: 'n1' })
  registry.apply(changes)
  return registry
}
const countIn = (registry: Registry) =>
  ipFamilies.map(
    family => registry.snapshot(family).healthChecks.get('default/web')?.localReady,
  )

/** What load balancers are told on a healthCheckNodePort. */
t.test('health checks', async t => {
  t.test('its port is a node port like others: the older Service has it', async t => {
    const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: 32000 } as const
    const ports = [portSpec({ nodePort: 32000 })]
    const v4 = { clusterIPs: ['10.0.0.2'] }
    const cases: [
      why: string,
      other: Partial<Service>,
      check: boolean,
      port: boolean,
      RegExp,
    ][] = [
      [
        'the health check first',
        { ...v4, ports, createdAt: 9 },
        true,
        false,
        /^Service default\/other spec.ports\[0\].nodePort .*held by Service default\/web \(its healthCheckNodePort\)/,
      ],
      [
        'the node port first',
        { ...v4, ports, createdAt: 1 },
        false,
        true,
        /^Service default\/web spec.healthCheckNodePort .*held by Service default\/other,/,
      ],
      [
        'two health checks',
        { ...v4, ...local, createdAt: 9 },
        true,
        false,
        /^Service default\/other spec.healthCheckNodePort .*\(its healthCheckNodePort\)/,
      ],
      [
        'UDP is another matter',
        { ...v4, ports: [portSpec({ nodePort: 32000, protocol: 'UDP' })], createdAt: 1 },
        true,
        true,
        /^$/,
      ],
    ]
    for (const [why, over, check, port, problem] of cases) {
      const registry = registryOf(
        put(service('web', { ...balanced, clusterIPs: ['10.0.0.1'], createdAt: 5 })),
        put(service('other', over)),
      )
      const { healthChecks, servicePorts } = registry.snapshot('IPv4')
      t.equal(healthChecks.has('default/web'), check, why)
      t.equal(
        [...servicePorts.values()].some(({ vips }) =>
          vips.some(({ kind }) => kind === 'NodePort'),
        ),
        port,
        why,
      )
      const all = registry
        .problems()
        .map(({ object, field, message }) => `${object} ${field} ${message}`)
      t.match(all.join('\n'), problem, why)
      t.equal(all.length, problem.source === '^$' ? 0 : 1, why)
    }
    const own = registryOf(put(service('web', { ...balanced, ports })))
    t.match(own.problems(), [
      { field: 'spec.healthCheckNodePort', message: /taken by spec.ports\[0\]/ },
    ])
  })

  t.test('a health check counts ready endpoints on this node, by family', async t => {
    const registry = registryOf(
      put(balanced),
      put(
        slice([
          endpoint('10.1.0.1', on('n1')),
          endpoint('10.1.0.2', on('n1')),
          endpoint('10.1.0.3', on('n2')),
          endpoint('10.1.0.4', on('n1', notReady)),
          endpoint('10.1.0.5', on('n1', terminating)),
          endpoint('10.1.0.6'),
        ]),
      ),
      put(slice([endpoint('fd01::1', on('n1'))], { name: 'web-6', family: 'IPv6' })),
    )
    t.same(countIn(registry), [2, 1])
    t.strictSame(
      [...registry.snapshot('IPv4').healthChecks],
      [
        [
          'default/web',
          { namespace: 'default', serviceName: 'web', port: 32000, localReady: 2 },
        ],
      ],
    )
  })

  t.test('one address behind two ports counts once', async t => {
    const registry = registryOf(
      put({ ...balanced, ports: [portSpec(), portSpec({ name: 'alt', port: 81 })] }),
      put(
        slice([endpoint('10.1.0.1', on('n1'))], {
          ports: [
            { name: 'http', protocol: 'TCP', port: 8080 },
            { name: 'alt', protocol: 'TCP', port: 8081 },
          ],
        }),
      ),
    )
    t.same(countIn(registry), [1, 0])
  })

  t.test('a terminating endpoint is served and not counted', async t => {
    const registry = registryOf(
      put({ ...balanced, loadBalancerIPs: ['203.0.113.1'] }),
      put(slice([endpoint('10.1.0.1', on('n1', terminating))])),
    )
    t.same(countIn(registry), [0, 0])
    const port = registry.snapshot('IPv4').servicePorts.get('default/web:http/TCP')
    t.equal(port?.external.verdict, 'forward')
  })

  t.test('only Services with such a port have one, in families they have', async t => {
    const four = { ...balanced, clusterIPs: ['10.0.0.1'] }
    t.same(countIn(registryOf(put(four))), [0, undefined])
    t.same(countIn(registryOf(put({ ...four, healthCheckNodePort: 0 }))), [
      undefined,
      undefined,
    ])
  })

  t.test('the map of checks is the same one until a check changes', async t => {
    const registry = registryOf(
      put(balanced),
      put(slice([endpoint('10.1.0.1', on('n1'))])),
    )
    const before = registry.snapshot('IPv4')
    const check = before.healthChecks.get('default/web')
    registry.apply([put(slice([endpoint('10.1.0.2', on('n1'))]))])
    const after = registry.snapshot('IPv4')
    t.not(after, before)
    t.equal(after.healthChecks, before.healthChecks, 'still one ready endpoint')
    registry.apply([put({ ...balanced, healthCheckNodePort: 32001 })])
    const moved = registry.snapshot('IPv4')
    t.equal(moved.servicePorts, after.servicePorts)
    t.equal(moved.healthChecks.get('default/web')?.port, 32001)
    t.equal(check?.port, 32000, 'what was handed out stays')
    registry.apply([gone('Service', 'web')])
    t.equal(registry.snapshot('IPv4').healthChecks.size, 0)
  })
})
