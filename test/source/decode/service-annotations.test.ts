import t from 'tap'
import { decoded, faultsOf, objectOf, service } from './raw-objects.ts'

const annotated = (annotations: Record<string, unknown>) => service({}, { annotations })

const fault = (key: string, message: string): string =>
  `metadata.annotations["usher-proxy.io/${key}"]: ${message}`

t.test('annotations ask for what routes have', async t => {
  const raw = annotated({
    'kubectl.kubernetes.io/last-applied-configuration': 'x'.repeat(200_000),
    'usher-proxy.io/retry-early-close': 'true',
    'usher-proxy.io/replay': '1k',
    'usher-proxy.io/hold': '30s',
    'usher-proxy.io/most-held': '16',
    'usher-proxy.io/lifetime': '24h',
    'usher-proxy.io/max-client-rate': '10',
  })
  t.match(objectOf(raw), {
    limits: { routeConnections: undefined, clientRate: 10 },
    ages: { idleMs: undefined, lifetimeMs: 86_400_000 },
    retry: { earlyClose: true, replay: 1024, holdMs: 30_000, mostHeld: 16 },
  })
  t.strictSame(faultsOf(raw), [])
  t.match(objectOf(annotated({ 'usher-proxy.io/hold': '1s' })), {
    retry: { earlyClose: false, replay: 0, holdMs: 1000 },
  })
  const answers = annotated({
    'usher-proxy.io/answer-within': '2s',
    'usher-proxy.io/replay': '1k',
  })
  t.match(objectOf(answers), {
    retry: { earlyClose: false, replay: 1024, answerMs: 2000 },
  })
  t.strictSame(faultsOf(answers), [], 'then replay is of use')
  t.match(
    objectOf(annotated({ 'usher-proxy.io/most-held': '1000' })),
    { retry: { earlyClose: false, replay: 0, mostHeld: 1000 } },
    'of clients that wait for the end of a pause',
  )
})

t.test('weights of zones come with the way to choose', async t => {
  const weights = 'usher-proxy.io/zone-weights'
  t.match(objectOf(annotated({ [weights]: 'a=3, b=0' })), {
    balance: { by: 'round-robin', zoneWeights: { a: 3, b: 0 } },
  })
  t.match(objectOf(annotated({ [weights]: 'a=3', 'usher-proxy.io/balance': 'random' })), {
    balance: { by: 'random', zoneWeights: { a: 3 } },
  })
  for (const bad of ['', 'a', 'a=', 'a=257', 'a=1,a=2', 'a=-1', '=1', 'a=1,', 'a b=1'])
    t.match(faultsOf(annotated({ [weights]: bad })), [/is not zones with weights/], bad)
})

t.test('the relay is asked for by true, and by nothing else', async t => {
  const relay = 'usher-proxy.io/relay'
  t.match(objectOf(annotated({ [relay]: 'true' })), { relayed: true })
  const off = annotated({ [relay]: 'false' })
  t.notOk('relayed' in (objectOf(off) as object))
  t.strictSame(faultsOf(off), [])
  for (const [bad, message] of [
    ['yes', '"yes" is not true or false'],
    ['True', '"True" is not true or false'],
    ['', '"" is not true or false'],
    [true, 'true is not text; put it in quotes'],
  ] as const) {
    const raw = annotated({ [relay]: bad })
    t.notOk('relayed' in (objectOf(raw) as object), String(bad))
    t.strictSame(faultsOf(raw), [fault('relay', message)])
  }
  const withPorts = (...protocols: string[]) =>
    service(
      { ports: protocols.map((protocol, i) => ({ name: `p${i}`, port: 80, protocol })) },
      { annotations: { [relay]: 'true' } },
    )
  t.strictSame(faultsOf(withPorts('SCTP')), [
    fault('relay', 'does nothing, as the Service has no TCP or UDP port'),
  ])
  for (const one of ['TCP', 'UDP']) t.strictSame(faultsOf(withPorts('SCTP', one)), [])
})

t.test('without them, or with all of them off, there is nothing', async t => {
  for (const annotations of [
    {},
    { 'usher-proxy.io': 'true', 'other.io/hold': '30s', hold: '30s' },
    { 'usher-proxy.io/retry-early-close': 'false', 'usher-proxy.io/hold': '0s' },
  ]) {
    const raw = annotated(annotations)
    t.notOk('retry' in (objectOf(raw) as object), JSON.stringify(annotations))
    t.strictSame(faultsOf(raw), [])
  }
})

t.test('what is wrong is named, and the rest is taken', async t => {
  const raw = annotated({
    'usher-proxy.io/retry-early-close': 'maybe',
    'usher-proxy.io/replay': '1k',
    'usher-proxy.io/hold': '30s',
    'usher-proxy.io/most-held': '0',
    'usher-proxy.io/holds': '30s',
    'usher-proxy.io/\u202Ehold': '30s',
    'usher-proxy.io/retryEarlyClose': true,
  })
  t.match(objectOf(raw), { retry: { earlyClose: false, replay: 0, holdMs: 30_000 } })
  t.notOk(JSON.stringify(objectOf(raw)).includes('mostHeld'))
  t.strictSame(faultsOf(raw), [
    fault('retry-early-close', '"maybe" is not true or false'),
    fault(
      'most-held',
      '"0" is not a number of clients from 1 to 65536, like 256',
    ).replace('"0"', '0'),
    fault('holds', 'is unknown; did you mean hold?'),
    fault(String.raw`\u202ehold`, 'is unknown; did you mean hold?'),
    fault('retryEarlyClose', 'is unknown; did you mean retry-early-close?'),
    fault(
      'replay',
      'does nothing where retry-early-close is off; leave it out, or switch that on',
    ),
  ])
})

t.test('endpoints may be checked, by tcp only', async t => {
  const checked = (check: string, onDown?: string) =>
    annotated({
      'usher-proxy.io/check': check,
      ...(onDown !== undefined && { 'usher-proxy.io/on-down': onDown }),
    })
  t.match(objectOf(checked('tcp')), { onDown: 'keep' })
  t.match(objectOf(checked('tcp', 'reset')), { onDown: 'reset' })
  t.match(objectOf(checked('tcp', 'keep')), { onDown: 'keep' })
  t.notOk('retry' in (objectOf(checked('tcp')) as object))
  for (const other of ['http://:8008/primary', 'postgres', 'tcp://:5432', 'TCP', '']) {
    const raw = checked(other)
    t.notOk('onDown' in (objectOf(raw) as object), other)
    const message = `${JSON.stringify(other)} is not tcp, the only check that Services have`
    t.strictSame(faultsOf(raw), [fault('check', message)])
  }
  const wrong = checked('tcp', 'cut')
  t.match(objectOf(wrong), { onDown: 'keep' })
  t.strictSame(faultsOf(wrong), [fault('on-down', '"cut" is not keep or reset')])
  const idle = annotated({ 'usher-proxy.io/on-down': 'reset' })
  t.notOk('onDown' in (objectOf(idle) as object))
  t.strictSame(faultsOf(idle), [
    fault('on-down', 'does nothing without check; give that as well'),
  ])
})

t.test('those that no port of the Service can have are named', async t => {
  const annotations = {
    'usher-proxy.io/proxy-protocol': 'v2',
    'usher-proxy.io/balance': 'random',
    'usher-proxy.io/zone-weights': 'a=2',
  }
  const withPorts = (...protocols: readonly string[]): string[] => {
    const ports = protocols.map((protocol, i) => ({
      name: `p${i}`,
      port: 53 + i,
      protocol,
    }))
    return faultsOf(service({ ports }, { annotations }))
  }
  const idle = (key: string, those: string): string =>
    fault(key, `does nothing, as the Service has no ${those} port`)
  t.strictSame(withPorts('UDP', 'TCP'), [])
  const udp = annotated({
    'usher-proxy.io/udp-idle-timeout': '5m',
    'usher-proxy.io/udp-spread': '1',
  })
  t.match(objectOf(udp), { udp: { idleMs: 300_000, spread: 1 } })
  t.match(faultsOf(udp), [/as the Service has no UDP port/, /no UDP port/])
  t.strictSame(withPorts('UDP'), [idle('proxy-protocol', 'TCP')])
  t.strictSame(withPorts('SCTP'), [
    idle('proxy-protocol', 'TCP'),
    idle('balance', 'TCP or UDP'),
    idle('zone-weights', 'TCP or UDP'),
  ])
})

t.test('hostile ones cost little, and fill no log', async t => {
  const long = 'usher-proxy.io/hold'
  const faults = faultsOf(annotated({ [long]: `${'1'.repeat(250_000)}s` }))
  t.match(faults, [/is too long$/])
  t.ok((faults[0] ?? '').length < 200)
  t.strictSame(faultsOf(annotated({ [long]: 30 })), [
    fault('hold', '30 is not text; put it in quotes'),
  ])
  const many = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, i) => [`usher-proxy.io/n${i}`, '']),
  )
  const { problems } = decoded(annotated(many))
  t.equal(problems.length, 21)
  t.equal(problems.at(-1)?.message, 'and 19980 more problems')
  t.strictSame(faultsOf(service({}, { annotations: 'usher-proxy.io/hold' })), [])
})
