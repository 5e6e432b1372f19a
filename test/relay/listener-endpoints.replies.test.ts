import t from 'tap'
import { OwnCell } from '../../src/balance/cell.ts'
import { noDoubts } from '../../src/balance/doubts.ts'
import { noReplies } from '../../src/balance/replies.ts'
import { noCooldown } from '../../src/balance/cooldown.ts'
import type { Backend } from '../../src/relay/front.ts'
import { ListenerEndpoints, cooldownMs } from '../../src/relay/listener-endpoints.ts'
import { NodeClientSet } from '../../src/relay/node-clients.ts'
import {
  endpoint,
  listenerSpec,
  ownCounters,
  ownQueues,
} from '../support/relay-fixture.ts'

const udpReplyTimeout = 5000

/** Clients whose hashes differ, by 14 and by 64. */
const someClients = ['10.9.0.1', '10.9.0.2', '10.9.0.3'] as const
const [bad] = someClients
const good = '10.9.0.9'

class TestClock {
  time = 1000

  now(): number {
    return this.time
  }
}

class Endpoints extends ListenerEndpoints<Backend> {
  readonly clock: TestClock

  constructor(
    ports: readonly number[],
    expectsReplies: boolean,
    clock = new TestClock(),
  ) {
    super(
      clock,
      () => 0,
      new NodeClientSet(),
      { udpReplyTimeout, tcpIdleTimeout: 0 },
      ownQueues,
      ownCounters(),
    )
    this.clock = clock
    const spec = listenerSpec({
      protocol: 'UDP',
      endpoints: ports.map(port => endpoint('10.0.0.1', port)),
      retry: { earlyClose: false, replay: 0, expectsReplies },
    })
    this.takeEndpoints(spec, of => ({
      ...of,
      active: 0,
      failures: 0,
      cooldown: new OwnCell(noCooldown),
      replies: expectsReplies ? new OwnCell(noReplies) : undefined,
      doubts: expectsReplies ? new OwnCell(noDoubts) : undefined,
    }))
  }

  protected override reportAllFailed(): void {}

  at(which: number): Backend {
    const found = this.balancer.endpoints[which]
    if (found === undefined) throw new Error(`no endpoint ${which}`)
    return found
  }

  /** A flow of each of so many clients, or of these, goes to an endpoint that does not answer them. */
  silence(which: number, of: number | readonly string[] = 3): void {
    const clients = typeof of === 'number' ? someClients.slice(0, of) : of
    const sentAt = this.clock.time
    for (const client of clients) this.connected(client, this.at(which))
    this.clock.time += udpReplyTimeout
    for (const client of clients) this.unanswered(this.at(which), client, sentAt)
  }

  /** Two flows: one reply may be chance. */
  answer(which: number, client = good): void {
    for (let i = 0; i < 2; i += 1) {
      this.connected(client, this.at(which))
      this.clock.time += 1
      this.answered(this.at(which), client)
    }
  }

  /**
   * Flows for 5 minutes, one every `everyMs`, of which endpoints answer so many in a hundred: how
   * many each had.
   */
  run(everyMs: number, percents: readonly number[]): number[] {
    const turns = percents.map(() => 0)
    const waiting: { which: number; client: string; sentAt: number }[] = []
    let flows = 0
    // Not of chance: the test is the same each time.
    let seed = 1
    for (const end = this.clock.time + 300_000; this.clock.time < end;) {
      this.clock.time += everyMs
      while ((waiting[0]?.sentAt ?? Infinity) <= this.clock.time - udpReplyTimeout) {
        const { which = 0, client = '', sentAt = 0 } = waiting.shift() ?? {}
        this.unanswered(this.at(which), client, sentAt)
      }
      const client = `10.9.1.${(flows += 1) % 200}`
      const backend = this.balancer.pick(client)
      const which = this.balancer.endpoints.findIndex(one => one === backend)
      this.connected(client, this.at(which))
      turns[which] = (turns[which] ?? 0) + 1
      seed = (seed * 48_271) % 2_147_483_647
      if (seed % 100 < (percents[which] ?? 0)) this.answered(this.at(which), client)
      else waiting.push({ which, client, sentAt: this.clock.time })
    }
    return turns
  }

  /** How long it rests from now on. */
  cooldownOf(which: number): number {
    return Math.max(0, this.at(which).cooldown.read().until - this.clock.time)
  }
}

t.test('an endpoint that answers no flow', async t => {
  t.test('rests twice as long each time that its one flow gets no reply', async t => {
    const all = new Endpoints([1, 2], true)
    all.answer(1)
    all.silence(0, 2)
    t.equal(all.cooldownOf(0), 0, 'two may be chance')
    all.answer(1)
    const cooldowns: number[] = []
    for (let i = 0; i < 5; i += 1) {
      all.silence(0, [someClients[2]])
      cooldowns.push(all.cooldownOf(0))
      all.clock.time += all.cooldownOf(0)
      while (all.balancer.pick('') !== all.at(0));
      all.answer(1)
      t.not(all.balancer.pick(''), all.at(0), 'the others wait')
    }
    t.same(cooldowns, [10_000, 20_000, 40_000, 60_000, 60_000])
    all.answer(0)
    all.silence(0, 2)
    t.equal(all.at(0).cooldown.read(), noCooldown, 'as if nothing had been')
  })

  t.test('does not rest where none answers, nor where it is not asked for', async t => {
    for (const expectsReplies of [true, false]) {
      const all = new Endpoints([1, 2], expectsReplies)
      if (!expectsReplies) all.answer(1)
      all.silence(0, 10)
      all.silence(1, 10)
      t.same([all.cooldownOf(0), all.cooldownOf(1)], [0, 0])
    }
  })

  t.test('is no worse than the others once they are silent too', async t => {
    const all = new Endpoints([1, 2], true)
    all.silence(0)
    all.silence(0)
    all.answer(1)
    all.silence(0)
    t.equal(all.cooldownOf(0), cooldownMs.silent)
    all.clock.time += cooldownMs.silent
    all.silence(1)
    t.equal(all.cooldownOf(1), 0, 'nothing was answered meanwhile')
    all.silence(0, 1)
    t.equal(all.at(0).cooldown.read(), noCooldown)
  })
})

t.test('silence to one client alone', async t => {
  const xs = [bad, bad, bad] as const
  t.test('is not the endpoint’s while others are answered', async t => {
    const all = new Endpoints([1, 2], true)
    for (let i = 0; i < 20; i += 1) {
      all.answer(1)
      all.silence(0, xs)
      t.equal(all.cooldownOf(0), 0)
    }
    all.answer(1)
    all.silence(0, [good])
    t.equal(all.cooldownOf(0), 0, 'and one datagram that is lost makes no difference')
    all.answer(1)
    all.silence(0, [good])
    t.equal(all.cooldownOf(0), cooldownMs.silent, 'this client is answered elsewhere')
  })

  t.test('counts where another endpoint answers it, and 5 s later', async t => {
    const all = new Endpoints([1, 2], true)
    all.answer(1, bad)
    all.silence(0, xs)
    t.equal(all.cooldownOf(0), 0, 'one moment is not enough')
    all.answer(1, bad)
    all.silence(0, [bad])
    t.equal(all.cooldownOf(0), cooldownMs.silent)
  })

  t.test('counts no more once the endpoint has answered', async t => {
    const all = new Endpoints([1, 2], true)
    all.answer(1)
    all.silence(0, 2)
    const sentAt = all.clock.time
    all.answer(0)
    all.answer(1)
    all.unanswered(all.at(0), someClients[2], sentAt)
    all.silence(0, [someClients[2]])
    t.equal(all.cooldownOf(0), 0)
  })
})

t.test('endpoints that answer some of their flows', async t => {
  const sharesOf = (everyMs: number, percents: readonly number[]): number[] => {
    const turns = new Endpoints([1, 2, 3], true).run(everyMs, percents)
    const sum = turns.reduce((all, one) => all + one, 0)
    return turns.map(one => one / sum)
  }
  for (const everyMs of [10, 100, 1000]) {
    t.test(`a flow every ${everyMs} ms`, async t => {
      for (const percent of [0, 1, 3, 10, 30, 100]) {
        const shares = sharesOf(everyMs, [percent, percent, percent])
        t.ok(Math.min(...shares) > 0.25, `${percent} %: ${shares.join(' ')}`)
      }
      for (const percent of [1, 3, 10, 30]) {
        const shares = sharesOf(everyMs, [percent, 0, 0])
        t.ok(Math.min(...shares) > 0.25, `one ${percent} %: ${shares.join(' ')}`)
      }
      for (const percent of [90, 95, 100]) {
        const [dead = 1] = sharesOf(everyMs, [0, percent, percent])
        t.ok(dead < 0.06, `${dead} to one that is dead, where others have ${percent} %`)
      }
    })
  }
})

t.test('an endpoint that refused', async t => {
  const refuse = (all: Endpoints): void => {
    all.connected('', all.at(0))
    all.failed(all.at(0), cooldownMs.refused, 'refused')
  }
  const refusals = (all: Endpoints): number[] =>
    Array.from({ length: 3 }, () => {
      refuse(all)
      const cooldown = all.cooldownOf(0)
      all.clock.time += cooldown
      return cooldown
    })

  t.test('rests twice as long each time, where endpoints answer', async t => {
    const all = new Endpoints([1, 2], true)
    all.answer(1)
    t.same(refusals(all), [1000, 2000, 4000])
    all.connected('', all.at(0))
    t.not(all.at(0).cooldown.read(), noCooldown, 'a refusal may be under way')
    all.answer(0)
    t.equal(all.at(0).cooldown.read(), noCooldown)
  })

  t.test('rests for a second each time where none has ever answered', async t => {
    t.same(refusals(new Endpoints([1, 2], true)), [1000, 1000, 1000])
    const all = new Endpoints([1, 2], false)
    all.answer(1)
    t.same(refusals(all), [1000, 1000, 1000], 'nor where it is not asked for')
  })
})
