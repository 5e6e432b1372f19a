import t from 'tap'
import { OwnCell } from '../../src/balance/cell.ts'
import { noRest } from '../../src/balance/resting.ts'
import type { Backend } from '../../src/relay/backend.ts'
import { takeNoAnswer } from '../../src/relay/early-close.ts'
import { Choice } from '../../src/relay/front.ts'
import { ownQueues } from '../../src/relay/endpoint-capacity.ts'
import { ListenerEndpoints } from '../../src/relay/listener-endpoints.ts'
import { NodeClientSet } from '../../src/relay/node-clients.ts'
import { endpoint, listenerSpec } from '../support/relay-fixture.ts'

const answerMs = 2000

class Endpoints extends ListenerEndpoints<Backend> {
  readonly clock: { time: number; now(): number }

  constructor(holdMs = 0) {
    const clock = { time: 1000, now: () => clock.time }
    super(
      clock,
      () => 0,
      new NodeClientSet(),
      {
        tcpIdleTimeout: 0,
        udpReplyTimeout: 5000,
      },
      ownQueues,
    )
    this.clock = clock
    const spec = listenerSpec({
      endpoints: [1, 2].map(port => endpoint('10.0.0.1', port)),
      retry: { earlyClose: false, replay: 0, answerMs, holdMs },
    })
    this.takeEndpoints(spec, of => ({
      ...of,
      active: 1,
      failures: 0,
      resting: false,
      rest: new OwnCell(noRest),
      replies: undefined,
    }))
  }

  protected override tellAllFailed(): void {}

  /** Keys of those that so many clients are sent to. */
  picked(clients: number): string[] {
    const all = Array.from({ length: clients }, () => this.balancer.pick('')?.key ?? '')
    return [...new Set(all)].toSorted()
  }
}

const connected = (backend: Backend) => ({ backend, result: 'connected' })

/** The time for an answer of the first endpoint is over. */
const unanswered = (service: Endpoints, age: number, before: readonly string[] = []) => {
  const [backend] = service.balancer.endpoints
  if (backend === undefined) throw new Error('there is no endpoint')
  const attempts = [...before.map(result => ({ backend, result })), connected(backend)]
  const choice = new Choice(service.balancer)
  const taken = takeNoAnswer({
    service,
    backend,
    choice,
    attempts,
    age,
    repeatable: true,
  })
  return { backend, taken, results: attempts.map(({ result }) => result) }
}

t.test('an endpoint without an answer is left once', async t => {
  const service = new Endpoints()
  const first = unanswered(service, 0)
  t.match(first, { taken: true, results: ['no answer'], backend: { failures: 1 } })
  t.equal(first.backend.active, 0)
  const again = unanswered(service, 0, ['no answer'])
  t.match(again, { taken: false, results: ['no answer', 'connected'] })
  t.equal(again.backend.failures, 2, 'it has failed all the same')
})

t.test('while its client may wait it is left each time', async t => {
  const service = new Endpoints(30_000)
  t.match(unanswered(service, 29_999, ['no answer']), { taken: true })
  t.match(unanswered(service, 30_000, ['no answer']), { taken: false })
})

t.test('the client that tries it is alone with it until its answer is due', async t => {
  const service = new Endpoints()
  const { backend } = unanswered(service, 0)
  const other = service.balancer.endpoints[1]?.key
  t.strictSame(service.picked(4), [other])
  service.clock.time += 1000
  t.ok(service.picked(2).includes(backend.key), 'its rest is over')
  service.connected('', backend)
  service.clock.time += answerMs
  t.strictSame(service.picked(4), [other], 'that it accepts shows nothing')
  service.served(backend)
  t.equal(service.picked(2).length, 2)
})
