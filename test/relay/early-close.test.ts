import t from 'tap'
import { OwnCell } from '../../src/balance/cell.ts'
import { noDoubts } from '../../src/balance/doubts.ts'
import { noCooldown } from '../../src/balance/cooldown.ts'
import type { RetryOptions } from '../../src/model/traffic.ts'
import type { ProxyVersion } from '../../src/util/proxy-header.ts'
import {
  noteUnserved,
  takeEarlyClose,
  takeNoAnswer,
  noVerdict,
} from '../../src/relay/early-close.ts'
import { Choice, type Backend } from '../../src/relay/front.ts'
import { ListenerEndpoints } from '../../src/relay/listener-endpoints.ts'
import { NodeClientSet } from '../../src/relay/node-clients.ts'
import {
  endpoint,
  listenerSpec,
  ownCounters,
  ownQueues,
} from '../support/relay-fixture.ts'

const answerMs = 2000
const [a, b, c] = ['10.9.0.1', '10.9.0.2', '10.9.0.3'] as const

interface Options extends Partial<RetryOptions> {
  readonly tiers?: boolean
  readonly proxyProtocol?: ProxyVersion
}

/** Two endpoints; the first is the one that does not serve. */
class Endpoints extends ListenerEndpoints<Backend> {
  readonly clock: { time: number; now(): number }

  constructor({ tiers = false, proxyProtocol, ...retry }: Options = {}) {
    const clock = { time: 1000, now: () => clock.time }
    const limits = { tcpIdleTimeout: 0, udpReplyTimeout: 5000 }
    super(clock, () => 0, new NodeClientSet(), limits, ownQueues, ownCounters())
    this.clock = clock
    const spec = listenerSpec({
      endpoints: [1, 2].map((port, tier) =>
        Object.assign(tiers ? { tier } : {}, endpoint('10.0.0.1', port)),
      ),
      proxyProtocol,
      retry: { earlyClose: true, replay: 1000, answerMs, ...retry },
    })
    this.takeEndpoints(spec, of => ({
      ...of,
      active: 1,
      failures: 0,
      cooldown: new OwnCell(noCooldown),
      replies: undefined,
      doubts: new OwnCell(noDoubts),
    }))
  }

  protected override reportAllFailed(): void {}

  get first(): Backend {
    const found = this.balancer.get('10.0.0.1:1')
    if (found === undefined) throw new Error('there is no endpoint')
    return found
  }

  get second(): Backend {
    const found = this.balancer.get('10.0.0.1:2')
    if (found === undefined) throw new Error('there is no endpoint')
    return found
  }

  /** Keys of those that so many clients are sent to. */
  picked(clients: number): string[] {
    const all = Array.from({ length: clients }, () => this.balancer.pick('')?.key ?? '')
    return [...new Set(all)].toSorted()
  }

  get isCoolingDown(): boolean {
    return this.balancer.isCoolingDown(this.first)
  }
}

interface Traffic {
  readonly sent?: string | Buffer
  readonly isReplayable?: boolean
  readonly from?: string
  /** Results of attempts before. */
  readonly before?: readonly string[]
}

/** A connection to the first endpoint, which has not served it. */
const unserved = (
  service: Endpoints,
  { sent = '', isReplayable = true, from = a, before = [] }: Traffic,
) => {
  const backend = service.first
  const attempts = [...before, 'connected'].map(result => ({
    backend,
    result,
    unservedAfter: noVerdict,
  }))
  const choice = new Choice(service.balancer)
  const bytes = Buffer.from(sent)
  const connection = {
    service,
    backend,
    choice,
    attempts,
    isReplayable,
    clientBytes: bytes.length,
    replayBytes: bytes,
    address: () => from,
  }
  return connection
}

/** It closed `ms` after it was connected to; then the other endpoint serves. */
const closes = (service: Endpoints, ms: number, traffic: Traffic, more = 0): boolean => {
  const connection = unserved(service, traffic)
  const taken = takeEarlyClose(connection, ms)
  if (taken)
    noteUnserved(
      service,
      connection.attempts,
      connection.clientBytes + more,
      connection.address,
    )
  return taken
}

const late = 3000

t.test('an end at once on a client that has said nothing is the endpoint’s', async t => {
  const service = new Endpoints()
  t.equal(takeEarlyClose(unserved(service, {}), 20), true)
  t.equal(service.isCoolingDown, true)
})

t.test('not where a header has named the client', async t => {
  const service = new Endpoints({ proxyProtocol: 'v2' })
  t.equal(takeEarlyClose(unserved(service, {}), 20), true)
  t.equal(service.isCoolingDown, false)
})

t.test('nor any other end of few clients, whatever they get elsewhere', async t => {
  const service = new Endpoints()
  for (let i = 0; i < 20; i += 1) {
    service.clock.time += 100
    t.equal(closes(service, late, { from: a }), true)
    t.equal(closes(service, 5, { sent: 'GET /', from: b }), true)
  }
  t.equal(service.isCoolingDown, false)
  t.equal(service.first.failures, 40, 'it is to be seen')
})

t.test('three clients are enough, unless one was served meanwhile', async t => {
  const service = new Endpoints()
  for (const from of [a, b]) closes(service, late, { from })
  service.served(service.first)
  for (const from of [c, a]) closes(service, late, { from })
  t.equal(service.isCoolingDown, false)
  closes(service, late, { from: b })
  t.equal(service.isCoolingDown, true)
})

t.test('so are two that come long after one another', async t => {
  const service = new Endpoints()
  closes(service, 5, { sent: 'hello' })
  service.clock.time += 4999
  closes(service, 5, { sent: 'hello' })
  t.equal(service.isCoolingDown, false)
  service.clock.time += 1
  closes(service, 5, { sent: 'hello' })
  t.equal(service.isCoolingDown, true)
})

t.test('who is served nowhere, or has said more, says nothing of it', async t => {
  const service = new Endpoints()
  for (let i = 0; i < 20; i += 1) {
    service.clock.time += 1000
    const from = `10.9.1.${i}`
    takeEarlyClose(unserved(service, { sent: 'GET /', from }), 5)
    closes(service, late, { from }, 8)
    takeNoAnswer(unserved(service, { sent: 'SELECT', from }))
  }
  t.equal(service.isCoolingDown, false)
})

t.test('one that rests does so again when the next was not served', async t => {
  const service = new Endpoints()
  for (const from of [a, b, c]) closes(service, 5, { sent: 'x', from })
  service.clock.time += 1000
  t.ok(service.picked(2).includes(service.first.key), 'it is tried')
  closes(service, 5, { sent: 'x', from: a })
  t.equal(service.isCoolingDown, true)
  service.clock.time += 1999
  t.equal(service.isCoolingDown, true, 'for twice as long')
})

t.test('one that is up by its check does not give way to a later tier', async t => {
  for (const isChecked of [true, false]) {
    const check = isChecked ? 'tcp' : undefined
    const service = new Endpoints({ tiers: true, check })
    for (const from of [a, b, c]) closes(service, 5, { sent: 'x', from })
    t.equal(service.isCoolingDown, true)
    const { key } = isChecked ? service.first : service.second
    t.strictSame(service.picked(4), [key])
    t.equal(service.balancer.likelyGood('')[0]?.key, key, 'and that is explained')
    service.failed(service.first, 1000, 'ECONNREFUSED')
    t.strictSame(service.picked(4), [service.second.key], 'unless it refuses')
  }
})

const request = (code: number, ...more: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(8 + 4 * more.length)
  for (const [i, word] of [bytes.length, code, ...more].entries())
    bytes.writeUInt32BE(word, 4 * i)
  return bytes
}

t.test('a request to cancel is for one endpoint alone', async t => {
  const service = new Endpoints()
  const cancel = request(80_877_102, 4711, 815)
  for (const before of ['', request(80_877_103), request(80_877_104)]) {
    const sent = Buffer.concat([Buffer.from(before), cancel])
    t.equal(takeEarlyClose(unserved(service, { sent }), 5), false)
    t.equal(takeNoAnswer(unserved(service, { sent })), false)
  }
  t.equal(service.first.failures, 0)
  const startup = Buffer.concat([request(196_608), Buffer.from('user\0me\0\0')])
  t.equal(takeEarlyClose(unserved(service, { sent: startup }), 5), true)
})

t.test('an endpoint without an answer is left once', async t => {
  const service = new Endpoints({ holdMs: 30_000 })
  const first = unserved(service, { sent: 'x' })
  t.equal(takeNoAnswer(first), true)
  t.match(first, { attempts: [{ result: 'no answer' }], backend: { failures: 1 } })
  t.equal(service.first.active, 0)
})

t.test('what can’t be said again counts where others have had answers', async t => {
  const service = new Endpoints()
  const several = (): void => {
    for (const from of [a, b, c])
      takeNoAnswer(unserved(service, { sent: 'x', isReplayable: false, from }))
  }
  several()
  t.equal(service.isCoolingDown, false)
  service.served(service.second)
  service.clock.time += answerMs
  several()
  t.equal(service.isCoolingDown, true)
})

t.test('the client that tries it is alone with it until its answer is due', async t => {
  const service = new Endpoints()
  const { first, second } = service
  for (const from of [a, b, c]) closes(service, 5, { sent: 'x', from })
  t.strictSame(service.picked(4), [second.key])
  service.clock.time += 1000
  t.ok(service.picked(2).includes(first.key), 'its rest is over')
  service.connected('', first)
  service.clock.time += answerMs
  t.strictSame(service.picked(4), [second.key], 'that it accepts shows nothing')
  service.served(first)
  t.equal(service.picked(2).length, 2)
})
