import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { BindSet, type Listening } from '../../src/relay/bind-set.ts'
import type { Bind, BindState } from '../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { until } from '../support/until.ts'

const listenOn = async ({ address, port }: Bind): Promise<Listening> => {
  const server = createServer().listen({ port, host: address, exclusive: true })
  await once(server, 'listening')
  return server
}

t.test('BindSet', async t => {
  /** A BindSet whose binds are made by `open`, with what it told. */
  const setOf = (open: (bind: Bind) => Promise<Listening>) => {
    const told: BindState[] = []
    const set = new BindSet(open, state => void told.push(state))
    t.teardown(() => set.want([]))
    const listen = (binds: readonly Bind[]): Promise<void> => {
      set.want(binds)
      return set.listen()
    }
    return {
      told,
      set,
      listen,
      states: () => set.states().map(({ state }) => state),
    }
  }
  const inUse = Object.assign(new Error('in use'), { code: 'EADDRINUSE' })
  const refusing = (bind: Bind): BindState => ({
    bind,
    state: 'closed',
    reason: 'no endpoints',
  })
  const a = { address: '192.0.2.1', port: 1 }
  const b = { address: '192.0.2.1', port: 2 }

  t.test('listens on each and leaves those alone that stay', async t => {
    const did: string[] = []
    const { set, listen, told } = setOf(async ({ port }) => {
      did.push(`open ${port}`)
      return { close: () => did.push(`close ${port}`) }
    })
    await listen([a])
    await listen([a, b])
    const before = set.states()
    t.equal(set.states(), before, 'the same list while nothing changes')
    await listen([{ ...b }])
    t.not(set.states(), before)
    t.strictSame(did, ['open 1', 'open 2', 'close 1'])
    t.strictSame(set.states(), [{ bind: b, state: 'listening' }])
    t.strictSame(
      told.map(({ bind, state }) => [bind.port, state]),
      [
        [1, 'listening'],
        [2, 'listening'],
        [1, 'closed'],
      ],
    )
  })

  t.test('a port that somebody holds is tried again until it is free', async t => {
    const bind = { address: testHost, port: await freeTcpPort() }
    const holder = await listenOn(bind)
    const { set, listen, states, told } = setOf(listenOn)
    await listen([bind])
    const failed = set.states()
    t.match(failed, [{ bind, state: 'failed', error: 'EADDRINUSE' }])
    holder.close()
    await until('it listens', () => states()[0] === 'listening')
    t.not(set.states(), failed)
    t.strictSame(
      told.map(({ state }) => state),
      ['failed', 'listening'],
    )
  })

  t.test('failures in a row are told with the time of the first', async t => {
    let tries = 0
    const { listen, states, told } = setOf(async () => {
      tries += 1
      if (tries < 3) throw inUse
      return { close: () => {} }
    })
    await listen([a])
    t.equal(tries, 1, 'and the first is not waited out')
    await until('it listens', () => states()[0] === 'listening')
    const since = told.map(state => (state.state === 'failed' ? state.since : 0))
    t.equal(tries, 3)
    t.equal(since[1], since[0])
    t.ok(Math.abs(Date.now() - (since[0] ?? 0)) < 60_000, 'in epoch milliseconds')
  })

  t.test('one that fails keeps no other from listening', async t => {
    const { listen, states } = setOf(async ({ port }) => {
      if (port === 1) throw inUse
      return { close: () => {} }
    })
    await listen([a, b])
    t.strictSame(states(), ['failed', 'listening'])
  })

  t.test(
    'refusing closes all and says why; the same port serves again at once',
    async t => {
      const bind = { address: testHost, port: await freeTcpPort() }
      const { set, listen, told } = setOf(listenOn)
      for (let round = 0; round < 3; round += 1) {
        await listen([bind])
        t.strictSame(set.states(), [{ bind, state: 'listening' }])
        set.want([], [refusing(bind)])
        t.strictSame(set.states(), [{ bind, state: 'closed', reason: 'no endpoints' }])
        const client = connect(bind.port, bind.address)
        const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException]
        t.equal(error.code, 'ECONNREFUSED')
      }
      t.strictSame(
        told.map(({ state }) => state),
        Array.from({ length: 3 }, () => ['listening', 'closed']).flat(),
      )
    },
  )

  t.test('one that is no longer wanted is not tried again', async t => {
    let tries = 0
    const { set, listen, told } = setOf(async () => {
      tries += 1
      throw inUse
    })
    await listen([a])
    await listen([])
    t.strictSame(set.states(), [])
    const longestFirstPause = 500
    await sleep(longestFirstPause + 50)
    t.equal(tries, 1)
    t.match(told, [{ state: 'failed' }, { state: 'closed' }], 'it fails no longer')
  })

  t.test('one that goes while it is being made is closed when it is there', async t => {
    const making: ((listening: Listening) => void)[] = []
    const { set, listen, told } = setOf(() => new Promise(made => making.push(made)))
    const listened = listen([a])
    t.strictSame(set.states(), [{ bind: a, state: 'binding' }])
    set.want([], [refusing(a)])
    let closed = 0
    making[0]?.({ close: () => (closed += 1) })
    await listened
    t.equal(closed, 1)
    t.strictSame(told, [])
    t.match(set.states(), [{ state: 'closed' }])
  })
})
