import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RetryOptions } from '../../../src/model/traffic.ts'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** It takes several clients to say of an endpoint that it hangs. */
const several = ['127.0.0.2', '127.0.0.3', '127.0.0.4']

const retry = { earlyClose: true, replay: 1000, answerMs: 200 }

/** Endpoints that accept, and have no answer to what a client says first. */
export const tcpNoAnswerContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, options: Partial<RetryOptions> = {}) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [2000] } })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const listen = (...endpoints: readonly RelayEndpoint[]) =>
      fixture.listen({ binds, endpoints, retry: { ...retry, ...options } })
    const failures = (which = 0): number | undefined =>
      fixture.stats().endpoints[which]?.failures
    return { ...fixture, port, listen, failures }
  }

  /** Hears what is said, all connections together, and has an answer only when `say` is called. */
  const hanging = async (t: Test) => {
    const heard: Buffer[] = []
    const sockets: Socket[] = []
    const server = await tcpBackend(t, socket => {
      sockets.push(socket)
      socket.on('data', data => heard.push(data))
    })
    const say = (text: string): void => sockets.forEach(socket => socket.end(text))
    return { server, say, heard: (): string => Buffer.concat(heard).toString() }
  }

  /** Answers the first piece of what it is told with its name and that. */
  const answering = (t: Test, name: string, port = 0) => {
    const answer = (socket: Socket): void => {
      socket.once('data', data => socket.end(`${name} ${data.toString()}`))
      socket.on('end', () => socket.end())
    }
    return tcpBackend(t, answer, testHost, port)
  }

  /** All that it gets. */
  const answerTo = async (client: Socket): Promise<string> => {
    let text = ''
    client.on('data', data => (text += data.toString()))
    await once(client, 'end')
    client.end()
    return text
  }

  const asked = (
    t: Test,
    port: number,
    question: string,
    from?: string,
  ): Promise<string> => {
    const client = dial(t, port, testHost, from)
    client.write(question)
    return answerTo(client)
  }

  t.test('another one answers; the one that hangs rests', async t => {
    const { port, listen, failures, records, relay, stats } = await setUp(t)
    const hung = await hanging(t)
    await listen(hung.server.endpoint)
    const waiting = several.map(from => asked(t, port, 'one', from))
    await until('it was heard', () => hung.heard() === 'oneoneone')
    const a = await answering(t, 'a')
    await listen(hung.server.endpoint, a.endpoint)
    for (const answer of waiting) t.equal(await answer, 'a one')
    t.equal(failures(), 3)
    await until('it is recorded', () => records.length === 3)
    const [record] = records
    t.match(record, { cause: '--', endpoint: a.endpoint.key })
    t.strictSame(
      record?.attempts.map(({ result }) => result),
      ['no answer', 'connected'],
    )
    const others = await Promise.all([1, 2, 3, 4].map(() => asked(t, port, 'more')))
    t.strictSame([...new Set(others)], ['a more'])
    t.equal(hung.heard(), 'oneoneone', 'the others did not come to it')
    await until('all are recorded', () => records.length === 7)
    t.match(stats().endpoints, [{ active: 0 }, { active: 0 }])
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a half-closed question is asked again, with its end', async t => {
    const { port, listen } = await setUp(t)
    const hung = await hanging(t)
    await listen(hung.server.endpoint)
    const client = dial(t, port)
    client.end('all of it')
    await until('it was heard', () => hung.heard() === 'all of it')
    const ends = await tcpBackend(t, socket => {
      let text = ''
      socket.on('data', data => (text += data.toString()))
      socket.on('end', () => socket.end(`heard ${text}`))
    })
    await listen(hung.server.endpoint, ends.endpoint)
    t.equal(await answerTo(client), 'heard all of it')
  })

  const cases = [
    ['without replay', { replay: 0 }, 'question', 'connected'],
    ['more was said than can be repeated', {}, 'q'.repeat(1001), 'not replayed'],
  ] as const
  for (const [kind, options, question, result] of cases) {
    t.test(`${kind}: the client waits, and the endpoint has failed`, async t => {
      const { port, listen, failures, records } = await setUp(t, options)
      const hung = await hanging(t)
      const a = await answering(t, 'a')
      await listen(hung.server.endpoint)
      const client = dial(t, port)
      client.write(question)
      await until('it was heard', () => hung.heard() === question)
      await listen(hung.server.endpoint, a.endpoint)
      await until('it has failed', () => failures() === 1)
      await sleep(2 * retry.answerMs)
      t.equal(failures(), 1, 'once')
      hung.say('late')
      t.equal(await answerTo(client), 'late')
      t.equal(hung.heard(), question)
      t.equal(a.accepted, 0)
      await until('it is recorded', () => records.length === 1)
      t.match(records[0]?.attempts, [{ result }])
    })
  }

  for (const last of ['late', '']) {
    t.test(`when the others refuse, what it says counts: "${last}"`, async t => {
      const { port, listen, failures, records, relay } = await setUp(t)
      const hung = await hanging(t)
      const gone = endpoint(testHost, await freeTcpPort())
      await listen(hung.server.endpoint)
      const client = dial(t, port)
      client.write('question')
      await until('it was heard', () => hung.heard() === 'question')
      await listen(hung.server.endpoint, gone)
      const haveFailed = (): boolean => failures() === 1 && failures(1) !== 0
      await until('it has failed, and the other', haveFailed)
      await until('they were given up', () => carryingFds(relay.stats()) === 2)
      client.write(', and more')
      await until('it hears the rest', () => hung.heard() === 'question, and more')
      hung.say(last)
      t.equal(await answerTo(client), last)
      await until('it is recorded', () => records.length === 1)
      t.match(records[0], { cause: '--', endpoint: hung.server.endpoint.key })
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    })
  }

  t.test('its answer is not mixed with that of another one', async t => {
    const { port, listen, failures, stats } = await setUp(t, { holdMs: 20_000 })
    const hung = await hanging(t)
    const gone = await freeTcpPort()
    await listen(hung.server.endpoint)
    const answer = asked(t, port, 'question')
    await until('it was heard', () => hung.heard() === 'question')
    await listen(hung.server.endpoint, endpoint(testHost, gone))
    await until('the client waits', () => failures() !== 0 && stats().counters.held === 1)
    hung.say('late')
    await answering(t, 'a', gone)
    t.equal(await answer, 'a question')
  })

  t.test('alone, it may take its time', async t => {
    const { port, listen, failures, allFailed } = await setUp(t)
    const hung = await hanging(t)
    await listen(hung.server.endpoint)
    const answer = asked(t, port, 'question')
    await until('it has failed', () => failures() === 1)
    await until('that is told', () => allFailed.length === 1)
    hung.say('late')
    t.equal(await answer, 'late')
  })

  t.test('a client that says nothing is waited for', async t => {
    const { port, listen, failures, records } = await setUp(t)
    const a = await answering(t, 'a')
    const b = await answering(t, 'b')
    await listen(a.endpoint, b.endpoint)
    const client = dial(t, port)
    await until('it is connected', () => a.accepted + b.accepted === 1)
    await sleep(2.5 * retry.answerMs)
    client.write('question')
    t.match(await answerTo(client), / question$/)
    t.strictSame([failures(0), failures(1)], [0, 0])
    await until('it is recorded', () => records.length === 1)
    t.match(records[0]?.attempts, [{ result: 'connected' }])
  })

  t.test('one that hangs is tried again by one client, until it answers', async t => {
    // Where there is much to do the one that answers may take a while, too.
    const slow = { earlyClose: false, answerMs: 800 }
    const { port, listen, failures, stats } = await setUp(t, slow)
    const hung = await hanging(t)
    const a = await answering(t, 'a')
    await listen(hung.server.endpoint, a.endpoint)
    const few = (): Promise<string[]> =>
      Promise.all([1, 2, 3, 4].map(() => asked(t, port, 'q')))
    await Promise.all([...several, ...several].map(from => asked(t, port, 'q', from)))
    t.equal(failures(), hung.heard().length)
    const before = hung.heard().length
    const isCoolingDown = (): boolean => stats().endpoints[0]?.coolingDown ?? false
    await until('its rest is over', () => !isCoolingDown())
    t.strictSame([...new Set(await few())], ['a q'])
    t.equal(hung.heard().length, before + 1, 'one was the probe')
    await until('its rest is over, twice as long', () => !isCoolingDown())
    const answers = few()
    await until('it is tried', () => hung.heard().length > before + 1)
    hung.say('here')
    t.strictSame([...new Set(await answers)].toSorted(), ['a q', 'here'])
    t.equal(isCoolingDown(), false)
  })
}
