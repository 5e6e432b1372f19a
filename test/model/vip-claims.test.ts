import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { claimsOf, serviceProblems, VipClaims } from '../../src/model/claim.ts'
import type { Service, ServicePortSpec } from '../../src/model/service.ts'
import * as objects from '../support/objects.ts'
import { portSpec } from '../support/objects.ts'

const port = (over: Partial<ServicePortSpec> = {}): ServicePortSpec =>
  portSpec({ name: '', ...over })
const service = (name: string, over: Partial<Service> = {}): Service =>
  objects.service(name, { clusterIPs: [], ports: [port()], ...over })
const keyOf = ({ namespace, name }: Service): string => `${namespace}/${name}`

const decide = (...services: Service[]) => {
  const claims = new VipClaims()
  claims.update(new Map(services.map(each => [keyOf(each), each])))
  return {
    won: (name: string) => claims.wonBy(`default/${name}`).map(({ key }) => key),
    problems: (one: Service) => serviceProblems(one, claims.lostBy(keyOf(one))),
  }
}

const shown = (one: Service) => claimsOf(one).map(({ key, vip }) => `${vip.kind} ${key}`)

t.test('what a Service claims', async t => {
  t.test('each address with each port, and the node port on the wildcard', async t => {
    const one = service('web', {
      clusterIPs: ['10.0.0.1'],
      externalIPs: ['192.0.2.1'],
      loadBalancerIPs: ['203.0.113.1'],
      ports: [port({ nodePort: 30080 }), port({ protocol: 'UDP', port: 53 })],
    })
    t.same(shown(one), [
      'ClusterIP 10.0.0.1:80/TCP',
      'ExternalIP 192.0.2.1:80/TCP',
      'LoadBalancerIP 203.0.113.1:80/TCP',
      'NodePort 0.0.0.0:30080/TCP',
      'ClusterIP 10.0.0.1:53/UDP',
      'ExternalIP 192.0.2.1:53/UDP',
      'LoadBalancerIP 203.0.113.1:53/UDP',
    ])
  })

  t.test('nothing in a family in which it has no ClusterIP', async t => {
    const addresses = {
      externalIPs: ['192.0.2.1', '2001:db8::1'],
      loadBalancerIPs: ['203.0.113.1', '2001:db8::2'],
      ports: [port({ nodePort: 30080 })],
    }
    t.same(shown(service('web', { ...addresses, clusterIPs: ['fd00::1'] })), [
      'ClusterIP [fd00::1]:80/TCP',
      'ExternalIP [2001:db8::1]:80/TCP',
      'LoadBalancerIP [2001:db8::2]:80/TCP',
      'NodePort [::]:30080/TCP',
    ])
    t.same(shown(service('web', addresses)), [])
  })

  t.test('an address it lists twice only once, and nothing is lost by it', async t => {
    const one = service('web', {
      clusterIPs: ['10.0.0.1'],
      externalIPs: ['192.0.2.1', '192.0.2.1'],
      loadBalancerIPs: ['192.0.2.1', '10.0.0.1'],
    })
    t.same(shown(one), ['ClusterIP 10.0.0.1:80/TCP', 'ExternalIP 192.0.2.1:80/TCP'])
    t.same(decide(one).problems(one), [])
  })

  t.test('what source ranges guard stays guarded as an external IP', async t => {
    const one = service('web', {
      clusterIPs: ['10.0.0.1'],
      externalIPs: ['192.0.2.1', '192.0.2.2'],
      loadBalancerIPs: ['192.0.2.1'],
      sourceRanges: ['198.51.100.0/24'],
    })
    t.same(shown(one), [
      'ClusterIP 10.0.0.1:80/TCP',
      'ExternalIP 192.0.2.2:80/TCP',
      'LoadBalancerIP 192.0.2.1:80/TCP',
    ])
    t.same(decide(one).problems(one), [])
  })

  t.test('nothing for a port with the name and protocol of an earlier one', async t => {
    const one = service('web', {
      clusterIPs: ['10.0.0.1'],
      ports: [
        port({ name: 'x' }),
        port({ name: 'x', port: 81 }),
        port({ name: 'x', protocol: 'UDP' }),
      ],
    })
    t.same(shown(one), ['ClusterIP 10.0.0.1:80/TCP', 'ClusterIP 10.0.0.1:80/UDP'])
    t.match(decide(one).problems(one), [
      { field: 'spec.ports[1].name', message: /named x/ },
    ])
  })
})

t.test('who keeps a VIP', async t => {
  const address = { clusterIPs: ['10.0.0.1'] }
  const table: [why: string, winner: Service, loser: Service, field: string][] = [
    [
      'the older Service keeps a ClusterIP',
      service('b', { ...address, createdAt: 1 }),
      service('a', { ...address, createdAt: 2 }),
      'spec.clusterIPs',
    ],
    [
      'of two made at once the smaller name keeps it',
      service('a', address),
      service('b', address),
      'spec.clusterIPs',
    ],
    [
      'an external IP loses to an older ClusterIP',
      service('b', address),
      service('a', {
        createdAt: 1,
        clusterIPs: ['10.0.0.2'],
        externalIPs: ['192.0.2.1', '10.0.0.1'],
      }),
      'spec.externalIPs[1]',
    ],
    [
      'a load-balancer IP loses to an older external IP',
      service('b', { clusterIPs: ['10.0.0.1'], externalIPs: ['192.0.2.1'] }),
      service('a', {
        createdAt: 1,
        clusterIPs: ['10.0.0.2'],
        loadBalancerIPs: ['192.0.2.1'],
      }),
      'status.loadBalancer.ingress',
    ],
    [
      'a node port loses in both families, and that is one problem',
      service('a', {
        clusterIPs: ['10.0.0.1', 'fd00::1'],
        ports: [port({ nodePort: 30080 })],
      }),
      service('b', {
        clusterIPs: ['10.0.0.2', 'fd00::2'],
        ports: [port({ name: 'x', port: 90 }), port({ nodePort: 30080 })],
      }),
      'spec.ports[1].nodePort',
    ],
  ]
  for (const [why, winner, loser, field] of table) {
    t.test(why, async t => {
      const { won, problems } = decide(loser, winner)
      t.same(
        won(winner.name),
        claimsOf(winner).map(({ key }) => key),
      )
      const lost = claimsOf(loser).filter(({ key }) => !won(loser.name).includes(key))
      t.same([...new Set(lost.map(claim => claim.field))], [field])
      t.same(problems(winner), [])
      const [problem, ...more] = problems(loser)
      t.same(more, [])
      t.match(problem, {
        object: `Service default/${loser.name}`,
        field,
        message: new RegExp(`held by Service default/${winner.name},`),
      })
    })
  }

  t.test('the namespace decides before the name', async t => {
    const claims = new VipClaims()
    const [a, z] = [service('z', { ...address, namespace: 'a' }), service('a', address)]
    claims.update(new Map([a, z].map(one => [keyOf(one), one])))
    t.equal(claims.wonBy('a/z').length, 1)
    t.equal(claims.wonBy('default/a').length, 0)
  })

  t.test('the same address with another port or protocol is no conflict', async t => {
    const { won } = decide(
      service('a', address),
      service('b', { ...address, ports: [port({ port: 81 })] }),
      service('c', { ...address, ports: [port({ protocol: 'UDP' })] }),
    )
    t.same(['a', 'b', 'c'].flatMap(won), [
      '10.0.0.1:80/TCP',
      '10.0.0.1:81/TCP',
      '10.0.0.1:80/UDP',
    ])
  })

  t.test('a node port and a VIP of the same port number are no conflict', async t => {
    const { won } = decide(
      service('a', { ...address, ports: [port({ nodePort: 30080 })] }),
      service('b', { clusterIPs: ['10.0.0.2'], ports: [port({ port: 30080 })] }),
    )
    t.same(won('b'), ['10.0.0.2:30080/TCP'])
    t.same(won('a'), ['10.0.0.1:80/TCP', '0.0.0.0:30080/TCP'])
  })

  t.test('of two ports of one Service the earlier keeps it', async t => {
    const one = service('web', {
      clusterIPs: ['10.0.0.1'],
      ports: [port({ name: 'x', nodePort: 30080 }), port({ name: 'y', nodePort: 30080 })],
    })
    const { won, problems } = decide(one)
    t.same(won('web'), ['10.0.0.1:80/TCP', '0.0.0.0:30080/TCP'])
    t.match(problems(one), [
      {
        field: 'spec.ports[1].port',
        message: /10\.0\.0\.1:80\/TCP is taken by spec.ports\[0\]/,
      },
      {
        field: 'spec.ports[1].nodePort',
        message: /30080\/TCP is taken by spec.ports\[0\]/,
      },
    ])
  })

  t.test('a VIP that is given up goes to the next, who is named as affected', async t => {
    const claims = new VipClaims()
    const all = ['a', 'b', 'c', 'd'].map(name => service(name, address))
    claims.update(new Map(all.map(one => [keyOf(one), one])))
    const affected = claims.update(new Map([['default/a', undefined]]))
    t.same([...affected].toSorted(), ['default/a', 'default/b', 'default/c', 'default/d'])
    t.equal(claims.wonBy('default/b').length, 1)
    t.match(claims.lostBy('default/c'), [{ holder: { service: { name: 'b' } } }])
  })

  t.test('a Service that changes nothing of a VIP affects only itself', async t => {
    const claims = new VipClaims()
    const all = ['a', 'b', 'c'].map(name => service(name, address))
    claims.update(new Map(all.map(one => [keyOf(one), one])))
    const again = service('a', { ...address, affinityMs: 5 })
    t.same([...claims.update(new Map([['default/a', again]]))], ['default/a'])
    t.same([...claims.update(new Map([['default/c', undefined]]))], ['default/c'])
  })

  t.test(
    'decides as if all Services queued up by age and took what is left',
    async () => {
      const pool = fc.constantFrom('10.0.0.1', '10.0.0.2', 'fd00::1', '0.0.0.0')
      const anyPort = fc.record({
        name: fc.constantFrom('', 'x', 'y'),
        protocol: fc.constantFrom('TCP' as const, 'UDP' as const),
        port: fc.constantFrom(80, 30080),
        nodePort: fc.constantFrom(0, 30080, 30081),
      })
      const anyService = fc
        .record({
          namespace: fc.constantFrom('default', 'other'),
          name: fc.constantFrom('a', 'b', 'c'),
          createdAt: fc.nat(2),
          clusterIPs: fc.uniqueArray(pool, { maxLength: 2 }),
          externalIPs: fc.array(pool, { maxLength: 2 }),
          loadBalancerIPs: fc.array(pool, { maxLength: 2 }),
          ports: fc.array(anyPort, { maxLength: 3 }),
        })
        .map(({ name, ...over }) => service(name, over))
      const change = fc.record({ object: anyService, gone: fc.boolean() })
      const batches = fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 6 })
      fc.assert(
        fc.property(batches, all => {
          const claims = new VipClaims()
          const present = new Map<string, Service>()
          const outcome = (key: string) =>
            [
              claims.wonBy(key).map(claim => claim.key),
              claims
                .lostBy(key)
                .map(({ claim, holder }) => [claim.key, keyOf(holder.service)]),
            ] as const
          for (const batch of all) {
            const before = new Map([...present.keys()].map(key => [key, outcome(key)]))
            const changed = new Map<string, Service | undefined>()
            for (const { object, gone } of batch) {
              changed.set(keyOf(object), gone ? undefined : object)
              if (gone) present.delete(keyOf(object))
              else present.set(keyOf(object), object)
            }
            const affected = claims.update(changed)

            const taken = new Map<string, string>()
            const queue = [...present.values()].toSorted(
              (a, b) => a.createdAt - b.createdAt || (keyOf(a) < keyOf(b) ? -1 : 1),
            )
            for (const one of queue) {
              const key = keyOf(one)
              const [won, lost] = [[] as string[], [] as string[][]]
              for (const claim of claimsOf(one)) {
                const holder = taken.get(claim.key)
                if (holder === undefined) won.push(claim.key)
                else lost.push([claim.key, holder])
                taken.set(claim.key, holder ?? key)
              }
              assert.deepStrictEqual(outcome(key), [won, lost])
              if (!affected.has(key))
                assert.deepStrictEqual(before.get(key), outcome(key))
            }
          }
        }),
        { numRuns: 500 },
      )
    },
  )
})
