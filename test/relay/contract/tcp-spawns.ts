import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'
import { answer, readAnswers } from '../../support/whole-answers.ts'

const spawners = 2
const visits = Number(process.env['USHER_TEST_SPAWN_VISITS'] ?? 1500)

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
    const over = new AbortController()
    let started = 0
    const spawner = async (): Promise<void> => {
      while (!over.signal.aborted) {
        await once(spawn('true', { stdio: 'ignore' }), 'exit')
        started += 1
        // libuv handles one exit after the other before it looks at sockets.
        await sleep(1)
      }
    }
    const spawning = Promise.all(Array.from({ length: spawners }, spawner))
    const seen = await readAnswers(port, testHost, visits)
    over.abort()
    await spawning
    t.match(seen, { short: 0, wrong: 0, reset: 0 }, `${seen.whole} whole answers`)
    t.ok(seen.whole > visits / 4 && started > 50, `${started} processes were started`)
    t.strictSame(faults, [])
    t.match(stats().counters.failed, { SD: undefined })
  })
}
