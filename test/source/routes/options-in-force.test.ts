import t from 'tap'
import { readRoutes } from '../../../src/source/routes/read-routes.ts'
import type { TrafficOptions } from '../../../src/model/traffic.ts'
import { exampleOf, fromText, shown } from '../../../src/source/options/option.ts'
import {
  allOptions,
  optionsInForce,
  routeOptions,
} from '../../../src/source/routes/route-fields.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'

const of = async (text: string) => {
  const { routes, faults } = await readRoutes(
    `routes: [{listen: tcp://127.0.0.1:1, endpoints: [a:1], ${text}}]`,
  )
  t.strictSame(faults, [])
  return optionsInForce(routes[0] ?? {})
}

t.test('options are called as they are in a file', async t => {
  const file = {
    balance: 'least-connections',
    slowStart: '1m30s',
    maxConnections: '80',
    queue: '0s',
    mostQueued: '64',
    maxRouteConnections: '1000',
    maxRouteRate: '200',
    maxClientConnections: '20',
    maxClientRate: '10',
    proxyProtocol: 'v2',
    replay: '1024',
    answerWithin: '2s',
    hold: '30s',
    mostHeld: '16',
    idleTimeout: '1h0m0s',
    lifetime: '24h0m0s',
    accessLog: 'tcplog',
    accessLogTo: 'file:/var/log/db.log',
  }
  const given = Object.entries({ ...file, replay: '1KiB' })
  const text = given.map(([name, value]) => `${name}: ${value}`).join(', ')
  t.strictSame(await of(`${text}, retryEarlyClose: false`), {
    ...file,
    retryEarlyClose: 'off',
  })
  const names = new Set([...Object.keys(routeOptions), 'serverNames'])
  const all = await of(`${text}, retryEarlyClose: false, acceptProxy: [10.0.0.0/8]`)
  t.strictSame(
    Object.keys(all).filter(name => !names.has(name)),
    [],
  )
})

t.test('what is told of an option is what a file or a flag may have', async t => {
  const told: string[] = []
  for (const [name, one] of Object.entries(allOptions)) {
    const draft = one.decode(fromText(one.schema, exampleOf(one.schema)))
    const text = one.at && shown(one, draft as TrafficOptions)
    if (text === undefined || name === 'acceptProxy') continue
    told.push(name)
    t.strictSame(one.decode(fromText(one.schema, text)), draft, `${name}: ${text}`)
  }
  t.strictSame(
    told,
    Object.keys(allOptions).filter(
      name => allOptions[name]?.at && name !== 'acceptProxy',
    ),
  )
})

t.test('those of UDP are told, too', async t => {
  const udp = async (more: string) => {
    const { routes } = await readRoutes(
      `routes: [{listen: udp://127.0.0.1:1, endpoints: [a:1]${more}}]`,
    )
    return optionsInForce(routes[0] ?? {})
  }
  t.strictSame(await udp(', udpSpread: 3, udpIdleTimeout: 5m'), {
    udpSpread: '3',
    udpIdleTimeout: '5m0s',
  })
  t.strictSame(await udp(''), {}, 'and none of TCP')
})

t.test('what is not given is not in force', async t => {
  t.strictSame(await of('name: db'), {})
  t.strictSame(optionsInForce({}), {})
})

t.test('a check is told, and no password of it', async t => {
  t.strictSame(await of("check: 'http://:8008/primary?a=b'"), {
    check: 'http://:8008/primary?a=b',
  })
  t.strictSame(await of('check: {type: redis, user: usher, password: secret}'), {
    check: 'redis',
  })
  t.strictSame(await of("check: {send: 'PING', expect: 'PONG'}"), { check: 'expect' })
})

t.test('of lists there is the number of ranges', async t => {
  const two = rangesOf(['10.0.0.0/8', 'fd00::1'])
  const clients = { deny: [two, two], allow: [rangesOf(['192.0.2.1'])] }
  t.strictSame(optionsInForce({ clients, acceptProxy: two }), {
    allow: '1 range',
    deny: '4 ranges',
    acceptProxy: '2 ranges',
  })
})
