import t from 'tap'
import type { ConnectionAges } from '../../../../src/model/traffic.ts'
import { Connection, flag } from '../../../../src/relay/engine/tcp/connection.ts'
import { IdleLimits } from '../../../../src/relay/engine/tcp/idle-limits.ts'
import type { SocketCalls } from '../../../../src/relay/engine/tcp/socket-calls.ts'
import type { TcpService } from '../../../../src/relay/engine/tcp/tcp-service.ts'
import type {
  WorkerBackend,
  WorkerEnv,
} from '../../../../src/relay/engine/worker/worker-backend.ts'

interface Given {
  /** Milliseconds. */
  readonly idle?: number
  readonly halfClose?: number
  readonly ages?: ConnectionAges
}

/** The limits alone, at the time 1000, with a connection to an endpoint. */
const setUp = ({ idle = 0, halfClose = 300_000, ages }: Given) => {
  const loop = { now: 1000 }
  const signs = { beat: () => {} }
  const limits = { halfCloseTimeout: halfClose }
  const env = { loop, limits, signs, random: () => 0.5 } as unknown as WorkerEnv
  const sockets = { unacknowledged: () => 0 } as unknown as SocketCalls
  const idleLimits = new IdleLimits(env, sockets)
  const service = {
    ages,
    get idleMs(): number {
      return this.ages?.idleMs ?? idle
    },
  }
  const connect = (): Connection => {
    const words = new Int32Array(8)
    const of = service as TcpService
    const connection = new Connection(of, {} as never, 5, { words }, loop.now, 1)
    connection.state = 'open'
    connection.endpoint = { key: 'a' } as WorkerBackend
    idleLimits.begun(connection)
    return connection
  }
  /** So much later: which were to end meanwhile, when, and of what. */
  const pass = (ms: number): string[] => {
    const ended: string[] = []
    for (const end = loop.now + ms; loop.now < end; loop.now += 100)
      for (const [side, isDrained] of idleLimits.overdue(loop.now)) {
        const which = side.isBackend ? 'backend' : 'client'
        ended.push(`${loop.now} ${which}${isDrained ? ' drained' : ''}`)
        side.connection.state = 'ended'
        idleLimits.ended(side.connection)
      }
    return ended
  }
  const clientLeaves = (connection: Connection): void => {
    connection.client.set(flag.ended)
    idleLimits.halfClosed(connection)
  }
  const only = connect()
  return { loop, idleLimits, service, connect, pass, clientLeaves, only }
}

/** Endpoints are drained, and nothing else. */
const drained = { isIdleCut: () => true }

t.test('one that is restored to a drained endpoint is drained again', async t => {
  const { idleLimits, only, pass, service } = setUp({})
  const { endpoint } = only
  idleLimits.drained(only)
  only.endpoint = undefined
  only.state = 'dialling'
  t.strictSame(pass(2000), [])
  only.endpoint = endpoint
  only.state = 'open'
  idleLimits.stillDrained(service as TcpService, drained)
  idleLimits.drained(only)
  t.strictSame(pass(60_000), ['8000 client drained'])
})

t.test('one whose endpoint is drained no more, while it has none, is not', async t => {
  const { idleLimits, only, pass, service } = setUp({})
  const { endpoint } = only
  idleLimits.drained(only)
  only.endpoint = undefined
  only.state = 'dialling'
  pass(2000)
  idleLimits.stillDrained(service as TcpService, undefined)
  only.endpoint = endpoint
  only.state = 'open'
  only.backend.set(flag.ended)
  idleLimits.halfClosed(only)
  t.strictSame(pass(400_000), ['303000 client'])
})

t.test('each limit counts from its own beginning', async t => {
  const ages = { lifetimeMs: 1e9, idleMs: 300_000 }
  const changing = setUp({ ages })
  changing.clientLeaves(changing.only)
  changing.pass(290_000)
  changing.service.ages = { ...ages, lifetimeMs: 1e9 - 1 }
  changing.idleLimits.changed(changing.only)
  t.strictSame(changing.pass(700_000), ['301000 backend'], 'its idle limit begins anew')

  const often = setUp({ idle: 600_000 })
  const ended: string[] = []
  for (let i = 0; i < 4; i += 1) {
    ended.push(...often.pass(240_000))
    if (ended.length > 0) break
    often.idleLimits.drained(often.only)
    ended.push(...often.pass(2000))
    often.idleLimits.stillDrained(often.service as TcpService, undefined)
  }
  t.strictSame(ended, ['601000 client'], 'however often it is drained for a while')

  const late = setUp({ idle: 10_000 })
  late.pass(9000)
  late.clientLeaves(late.only)
  t.strictSame(late.pass(30_000), ['11000 client'], 'an end does not prolong it')

  const both = setUp({ halfClose: 5000 })
  both.clientLeaves(both.only)
  both.pass(2000)
  both.idleLimits.drained(both.only)
  t.strictSame(both.pass(30_000), ['6600 backend'], 'the first that is reached counts')
})

t.test('a time that is over is noticed an eighth of it later at most', async t => {
  const { connect, clientLeaves, only, pass } = setUp({ halfClose: 8000 })
  clientLeaves(only)
  pass(100)
  clientLeaves(connect())
  t.strictSame(pass(30_000), ['9000 backend', '10000 backend'])
})

t.test('one that moves stays, and thousands are over together', async t => {
  const { connect, only, pass } = setUp({ idle: 10_000 })
  const others = Array.from({ length: 3000 }, connect)
  for (const other of others.slice(0, 1500)) other.state = 'ended'
  for (let i = 0; i < 5; i += 1) {
    t.strictSame(pass(1900), [])
    only.client.bytes += 1
  }
  const ended = pass(8000)
  t.equal(ended.length, 1500)
  t.strictSame([...new Set(ended)], ['11000 client'])
  t.strictSame(pass(10_000), ['21000 client'])
})
