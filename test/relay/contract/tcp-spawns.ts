import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'

const clients = 60
const spawners = 2
const visits = Number(process.env['USHER_TEST_SPAWN_VISITS'] ?? 1500)

/** Long enough for several reads, and unlike itself at each place. */
const answer = Buffer.from(
  Array.from({ length: 60_000 }, (_, i) => (i * 31 + (i >> 8)) & 255),
)

/**
 * Between clone(2) and execve(2) a child holds a copy of every descriptor, so that a close(2)
 * here neither ends a connection nor takes it out of epoll (epoll(7), Q6), and its late events
 * carry a number that is another's by then.
 */
export const tcpSpawnsContract = (t: Test, make: MakeRelay): void => {
  t.test('answers are whole while processes are started', async t => {
    const { listen, faults, stats } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backend = await tcpBackend(t, socket => void socket.end(answer))
    await listen({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] })
    const seen: Seen = { short: 0, wrong: 0, reset: 0, whole: 0 }
    let left = visits
    const over = new AbortController()
    let started = 0
    const visitor = async (resets: boolean): Promise<void> => {
      while (left-- > 0) await (resets ? leaveEarly(port) : readAll(port, seen))
    }
    const spawner = async (): Promise<void> => {
      while (!over.signal.aborted) {
        await once(spawn('true', { stdio: 'ignore' }), 'exit')
        started += 1
        // libuv handles one exit after the other before it looks at sockets.
        await sleep(1)
      }
    }
    const spawning = Promise.all(Array.from({ length: spawners }, spawner))
    await Promise.all(Array.from({ length: clients }, (_, i) => visitor(i % 2 === 0)))
    over.abort()
    await spawning
    t.match(seen, { short: 0, wrong: 0, reset: 0 }, `${seen.whole} whole answers`)
    t.ok(seen.whole > visits / 4 && started > 50, `${started} processes were started`)
    t.strictSame(faults, [])
    t.match(stats().counters.failed, { '--': undefined, SD: undefined })
  })
}

interface Seen {
  /** Ended in order, and too early. */
  short: number
  wrong: number
  reset: number
  whole: number
}

/** Reads to the end, and counts what that was like. */
const readAll = (port: number, seen: Seen): Promise<void> =>
  new Promise(resolve => {
    let bytes = 0
    let isRight = true
    const socket = connect(port, testHost)
    socket.on('data', piece => {
      isRight &&= piece.equals(answer.subarray(bytes, bytes + piece.length))
      bytes += piece.length
    })
    socket.on('error', () => (seen.reset += 1))
    socket.on('end', () => {
      if (!isRight) seen.wrong += 1
      else if (bytes < answer.length) seen.short += 1
      else seen.whole += 1
    })
    socket.on('close', () => resolve())
  })

/** Resets in the middle of the answer. */
const leaveEarly = (port: number): Promise<void> =>
  new Promise(resolve => {
    const socket = connect(port, testHost)
    socket.once('data', () => reset(socket))
    socket.on('error', () => {})
    socket.on('close', () => resolve())
  })
