import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { FdBudget } from '../../src/relay/fd-budget.ts'
import { acceptGate } from '../../src/relay/portable/accept-gate.ts'
import { BindSet, type Listening } from '../../src/relay/bind-set.ts'
import { Handover } from '../../src/relay/portable/handover.ts'
import { bindKey, type Bind, type BindState } from '../../src/relay/relay.ts'
import { onLinux, portOf, withIpv6 } from '../support/connection.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { until } from '../support/until.ts'

const listenOn = async ({ address, port }: Bind): Promise<Listening> => {
  const server = createServer().listen({ port, host: address, exclusive: true })
  await once(server, 'listening')
  return server
}

/** Binding, and accepting or not. */
t.test('listening', async t => {
  t.test('acceptGate', async t => {
    for (const [name, host, options] of [
      ['IPv4', testHost, onLinux],
      ['IPv6', '::1', withIpv6],
    ] as const) {
      t.test(`keeps clients in the kernel's queue over ${name}`, options, async t => {
        let accepted = 0
        const server = createServer(socket => {
          accepted += 1
          socket.end('hello')
        })
        server.listen(0, host)
        await once(server, 'listening')
        t.teardown(() => server.close())
        const gate = acceptGate(server)
        assert.ok(gate !== undefined, 'there is a gate')
        const port = portOf(server)
        /** Connects and answers what it is told. */
        const client = async () => {
          const socket = connect(port, host)
          t.teardown(() => socket.destroy())
          await once(socket, 'connect')
          return once(socket, 'data')
        }
        await client()
        t.equal(accepted, 1, 'a gate begins open')
        for (let round = 1; round <= 2; round += 1) {
          gate.stop()
          gate.stop()
          const two = [client(), client()]
          await sleep(50)
          t.equal(accepted, round * 2 - 1, 'nobody is accepted')
          gate.start()
          gate.start()
          t.match(String(await Promise.all(two)), 'hello,hello')
          t.equal(accepted, round * 2 + 1)
        }
      })
    }

    t.test('is none for a server that does not listen', async t => {
      t.equal(acceptGate(createServer()), undefined)
    })

    t.test('leaves a stopped server closable; who queues is reset', onLinux, async t => {
      const server = createServer().listen(0, testHost)
      await once(server, 'listening')
      const port = portOf(server)
      acceptGate(server)?.stop()
      const client = connect(port, testHost)
      await once(client, 'connect')
      server.close()
      await once(server, 'close')
      const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException]
      t.equal(error.code, 'ECONNRESET')
    })
  })

  t.test('Handover', async t => {
    const offered = async (t: Test, wanted: boolean) => {
      const server = createServer().listen(0, testHost)
      await once(server, 'listening')
      const bind = { address: testHost, port: portOf(server) }
      const handover = new Handover()
      t.teardown(() => handover.end())
      handover.begin(new Set(wanted ? [bindKey(bind)] : []))
      handover.offer(bind, { server, close: () => void server.close() })
      const client = connect(bind.port, bind.address)
      t.teardown(() => client.destroy())
      const [error] = await Promise.race([
        once(client, 'connect'),
        once(client, 'error') as Promise<[NodeJS.ErrnoException]>,
      ]).catch((failure: unknown) => [failure])
      return { server, bind, handover, client, error: error as unknown }
    }

    t.test('keeps a server for its taker, with the clients that came', async t => {
      const { server, bind, handover, client } = await offered(t, true)
      await sleep(20)
      const passed = handover.take(bind)
      t.equal(passed?.served.server, server)
      t.teardown(() => server.close())
      server.on('connection', socket => socket.end('hello'))
      passed?.adopt()
      t.equal(String(await once(client, 'data')), 'hello')
      t.equal(handover.take(bind), undefined, 'to one alone')
    })

    t.test('closes what nobody took, and resets who came', async t => {
      const { server, handover, client } = await offered(t, true)
      await sleep(20)
      handover.end()
      const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException]
      t.equal(error.code, 'ECONNRESET')
      t.equal(server.listening, false)
    })

    t.test('closes at once what nobody wants', async t => {
      const { error } = await offered(t, false)
      t.match(error, { code: 'ECONNREFUSED' })
    })
  })

  t.test('BindSet', async t => {
    /** A BindSet whose binds are made by `open`, with what it told. */
    const setOf = (open: (bind: Bind) => Promise<Listening>) => {
      const told: BindState[] = []
      const budget = new FdBudget(4, 0, () => {})
      const set = new BindSet(budget, open, state => void told.push(state))
      t.teardown(() => set.want([]))
      const listen = (binds: readonly Bind[]): Promise<void> => {
        set.want(binds)
        return set.listen()
      }
      return {
        told,
        set,
        listen,
        budget,
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
      await listen([{ ...b }])
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
      t.match(set.states(), [{ bind, state: 'failed', error: 'EADDRINUSE' }])
      holder.close()
      await until('it listens', () => states()[0] === 'listening')
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

    t.test('each socket costs a descriptor, and fails while there is none', async t => {
      const { set, listen, budget } = setOf(async () => ({ close: () => {} }))
      await listen([a, b])
      t.equal(budget.used, 2)
      budget.take(2)
      const c = { address: '192.0.2.1', port: 3 }
      await listen([a, b, c])
      t.match(set.states()[2], { bind: c, state: 'failed', error: 'EMFILE' })
      budget.release(2)
      set.want([])
      t.equal(budget.used, 0)
    })

    t.test('one that is no longer wanted is not tried again', async t => {
      let tries = 0
      const { set, listen, told, budget } = setOf(async () => {
        tries += 1
        throw inUse
      })
      await listen([a])
      await listen([])
      t.strictSame(set.states(), [])
      const longestFirstPause = 500
      await sleep(longestFirstPause + 50)
      t.equal(tries, 1)
      t.equal(budget.used, 0, 'a failure costs nothing')
      t.match(told, [{ state: 'failed' }, { state: 'closed' }], 'it fails no longer')
    })

    t.test('one that goes while it is being made is closed when it is there', async t => {
      const making: ((listening: Listening) => void)[] = []
      const { set, listen, told, budget } = setOf(
        () => new Promise(made => making.push(made)),
      )
      const listened = listen([a])
      t.strictSame(set.states(), [{ bind: a, state: 'binding' }])
      set.want([], [refusing(a)])
      let closed = 0
      making[0]?.({ close: () => (closed += 1) })
      await listened
      t.equal(closed, 1)
      t.equal(budget.used, 0)
      t.strictSame(told, [])
      t.match(set.states(), [{ state: 'closed' }])
    })
  })
})
