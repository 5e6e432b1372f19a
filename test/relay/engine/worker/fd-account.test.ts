import t from 'tap'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import { FdAccount } from '../../../../src/relay/engine/worker/fd-account.ts'

interface Case {
  readonly limit: number
  readonly workers: number
  /** Listening sockets. */
  readonly listening: number
}

const cases: readonly Case[] = [
  { limit: 300, workers: 8, listening: 100 },
  { limit: 1024, workers: 8, listening: 520 },
  { limit: 1024, workers: 20, listening: 10 },
  { limit: 1024, workers: 4, listening: 700 },
  { limit: 1024, workers: 4, listening: 8 },
  { limit: 1024, workers: 1, listening: 8 },
  { limit: 100_000, workers: 4, listening: 8 },
  { limit: 100, workers: 16, listening: 20 },
]

/** The accounts of all workers, and how many connections each one has. */
const crowdOf = ({ limit, workers, listening }: Case) => {
  const memory = newDescriptorsMemory(limit, 64, workers + 1)
  const all = new Descriptors(memory, 0)
  if (!all.take(listening)) throw new Error('no room to listen')
  const calls = { close: () => 0 }
  const loop = { closing: () => {} }
  const accounts = Array.from({ length: workers }, (_, i) => {
    const account = new FdAccount(calls, loop, new Descriptors(memory, i + 1), () => {})
    return { account, connections: 0 }
  })
  type One = (typeof accounts)[number]
  const count = (): number =>
    accounts.reduce((sum, { connections }) => sum + connections, 0)
  return {
    all,
    accounts,
    count,
    /** Whether a client was let in. */
    accept: (one: One): boolean => {
      if (one.account.exhausted || !one.account.take(2)) return false
      one.connections += 1
      return true
    },
    end: (one: One): void => {
      one.connections -= 1
      one.account.release(2)
    },
    /** What each paused worker does every 50 ms. */
    look: (): boolean => {
      for (const { account } of accounts) account.recheck()
      return accounts.some(({ account }) => !account.exhausted)
    },
  }
}

for (const one of cases) {
  const name = `${one.workers} workers, ${one.listening} listening, limit ${one.limit}`
  const ways = ['each has its share', 'one has them all'] as const
  for (const way of ways) {
    t.test(`${name}: ${way}: who is paused goes on`, async t => {
      const { all, accounts, count, accept, end, look } = crowdOf(one)
      const [first] = accounts
      if (first === undefined) throw new Error('no worker')
      if (way === 'one has them all') while (accept(first));
      while (accounts.filter(accept).length > 0);
      for (const { account } of accounts) account.exhaust()
      const most = count()
      t.ok(most > 0 && all.spendable - all.used < 2, 'all is taken')
      t.notOk(look(), 'all are paused')

      while (count() > 0 && !look()) {
        const [busiest] = accounts.toSorted((a, b) => b.connections - a.connections)
        if (busiest !== undefined) end(busiest)
      }
      const ended = most - count()
      t.ok(ended <= Math.max(1, most / 10), `goes on when ${ended} of ${most} have ended`)
      const before = count()
      t.ok(accounts.filter(accept).length > 0, 'somebody is let in')
      t.ok(count() > before)

      for (const account of accounts) while (account.connections > 0) end(account)
      look()
      t.ok(
        accounts.every(({ account }) => !account.exhausted),
        'without connections everybody accepts',
      )
      while (accounts.filter(accept).length > 0);
      t.equal(count(), most, 'as many as before')
    })
  }
}

t.test('who has less than a connection’s share takes one while all wait', async t => {
  const memory = newDescriptorsMemory(40, 4, 33)
  const workers = Array.from({ length: 32 }, (_, i) => new Descriptors(memory, i + 1))
  for (const worker of workers) worker.wait(true)
  t.equal(workers.filter(worker => worker.take(2)).length, 18, 'as long as there are any')
  t.equal(workers[0]?.used, 36)
  workers[0]?.release(2)
  t.notOk(workers[1]?.take(2), 'not one that has its own')
  t.ok(workers[31]?.take(2))
})
