import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { loadSyscalls } from '../../../src/ffi/syscalls.ts'
import { type Channel, knock, openDoor } from '../../../src/relay/hand-over/channel.ts'
import { messageOf } from '../../../src/util/usher-error.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayOfTwo } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { listenerSpec, relayFixture } from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const ms = 20_000
const openFds = (): number => readdirSync('/proc/self/fd').length

/** A relay with one open connection, through which `echo` is heard. */
const setUp = async (t: Test) => {
  const port = await freeTcpPort()
  const backend = await echoBackend(t)
  const listeners = [
    listenerSpec({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] }),
  ]
  const made = relayFixture(t, makeLinuxRelayOfTwo)
  await made.relay.apply(listeners)
  const echoOf = async (client = dial(t, port)): Promise<string> => {
    client.write('word')
    return String(await once(client, 'data'))
  }
  return { ...made, port, listeners, backend, echoOf }
}

/** Plain: for an operator, and not from inside of JavaScript. */
const isPlain = (t: Test, text: unknown): void => {
  t.type(text, 'string')
  t.match(text, /Usher|(other|new) process|version|workers|descriptors/)
  t.notMatch(text, /undefined|\bnull\b|NaN|is not (a function|iterable)|Cannot read/)
  t.comment(text)
}

const outcome = async <T>(promise: Promise<T>): Promise<T | string> => {
  try {
    return await promise
  } catch (error) {
    return messageOf(error)
  }
}

interface Said {
  readonly what: string
  readonly value: unknown
  readonly fds?: number
}

/** What a new one says first. */
const good = { kind: 'take', format: 1, workers: 2, room: 1000 }
const insteadOfTake: readonly Said[] = [
  { what: 'nothing known', value: { kind: 'hello' } },
  { what: 'no object', value: null },
  { what: 'a list', value: [] },
  { what: 'another kind', value: { kind: 'kept' } },
  { what: 'no workers', value: { ...good, workers: undefined } },
  { what: 'workers in words', value: { ...good, workers: 'many' } },
  { what: 'negative workers', value: { ...good, workers: -1 } },
  { what: 'no room', value: { ...good, room: undefined } },
  { what: 'negative room', value: { ...good, room: -5 } },
  { what: 'another format', value: { ...good, format: 7 } },
  { what: 'descriptors', value: { kind: 'hello' }, fds: 300 },
  { what: 'as many as there may be', value: { kind: 'hello' }, fds: 65_536 },
]

const insteadOfReady: readonly Said[] = [
  { what: 'another kind', value: { kind: 'kept' } },
  { what: 'no object', value: 7 },
  { what: 'no listeners', value: { kind: 'ready' } },
  { what: 'a number for listeners', value: { kind: 'ready', listeners: 3 } },
  { what: 'numbers as listeners', value: { kind: 'ready', listeners: [1, 2] } },
  { what: 'descriptors', value: { kind: 'kept' }, fds: 300 },
]

t.test('a new one that speaks wrongly', { skip: linuxRelaySkip() }, async t => {
  const calls = loadSyscalls()
  const spare = calls.eventfd(0, 0)
  t.teardown(() => calls.close(spare))
  const say = ({ value, fds = 0 }: Said, channel: Channel): Promise<unknown> =>
    outcome(channel.send(value, Array<number>(fds).fill(spare), ms))
  const begin = async (t: Test) => {
    const one = await setUp(t)
    const { relay, echoOf, port, faults } = one
    const first = dial(t, port)
    t.equal(await echoOf(first), 'word')
    const before = openFds()
    const place = await relay.handOver()
    const over = outcome(relay.handedOver())
    const channel = await knock(calls, place.name, place.token, ms)
    const servesAsBefore = async (): Promise<void> => {
      channel.close()
      t.equal(await echoOf(first), 'word', 'who is connected')
      const other = dial(t, port)
      t.equal(await echoOf(other), 'word', 'who comes')
      other.destroy()
      await until('no descriptor is left', () => openFds() <= before, 3000)
      t.strictSame(faults, [])
    }
    return { ...one, first, before, channel, over, servesAsBefore }
  }
  for (const said of insteadOfTake)
    await t.test(`instead of take: ${said.what}`, async t => {
      const { channel, over, servesAsBefore } = await begin(t)
      await say(said, channel)
      const answer = await outcome(channel.receive(ms))
      const handed = await over
      if (typeof handed === 'string') isPlain(t, handed)
      else isPlain(t, handed.refused)
      if (typeof handed === 'object') {
        t.match(answer, { value: { kind: 'refused', reason: handed.refused } })
        t.equal(handed.connections, 0)
      }
      await servesAsBefore()
    })
  for (const said of insteadOfReady)
    await t.test(`instead of ready: ${said.what}`, async t => {
      const { channel, over, servesAsBefore } = await begin(t)
      await channel.send(good, [], ms)
      const answer = await channel.receive(ms)
      t.match(answer, { value: { kind: 'sockets' } })
      for (const fd of answer?.fds ?? []) calls.close(fd)
      await say(said, channel)
      isPlain(t, await over)
      await servesAsBefore()
    })
  for (const said of [
    { what: 'another kind', value: { kind: 'ready', listeners: [] } },
    { what: 'no object', value: null },
    { what: 'descriptors', value: { kind: 'what' }, fds: 300 },
  ])
    await t.test(`instead of kept: ${said.what}`, async t => {
      const { channel, over, before, first, echoOf, faults } = await begin(t)
      await channel.send(good, [], ms)
      const sockets = await channel.receive(ms)
      const ready = { kind: 'ready', listeners: ['test'], binds: [], room: 1000 }
      await channel.send(ready, [], ms)
      t.match(await channel.receive(ms), { value: { kind: 'yours' } })
      t.match(await channel.receive(ms), { value: { kind: 'stopped' } })
      const given = await channel.receive(ms)
      t.match(given, { value: { kind: 'connections' }, fds: { length: 2 } })
      await say(said, channel)
      t.match(await channel.receive(ms), { value: { kind: 'abort' } })
      t.match(await channel.receive(ms), { value: { kind: 'over' } })
      const handed = await over
      t.match(handed, { refused: '', connections: 0 })
      if (typeof handed === 'object') isPlain(t, Object.keys(handed.staying)[0])
      for (const fd of [...(sockets?.fds ?? []), ...(given?.fds ?? [])]) calls.close(fd)
      channel.close()
      t.equal(await echoOf(first), 'word', 'it goes on')
      // Nor its listening sockets.
      await until('no descriptor is left', () => openFds() <= before, 3000)
      t.strictSame(faults, [])
    })
  t.end()
})

const bindOf = (port: number) => ({ address: testHost, port })

t.test('an old one that speaks wrongly', { skip: linuxRelaySkip() }, async t => {
  const calls = loadSyscalls()
  const spare = calls.eventfd(0, 0)
  t.teardown(() => calls.close(spare))
  const some = (count: number): number[] => Array<number>(count).fill(spare)
  const port = await freeTcpPort()
  const sockets = (over: object) => ({
    kind: 'sockets',
    sockets: [
      {
        listener: 'x',
        protocol: 'TCP',
        bind: bindOf(port),
        spread: 'any',
        fds: 1,
        ...over,
      },
    ],
  })
  const insteadOfSockets: readonly Said[] = [
    { what: 'another kind', value: { kind: 'commit' } },
    { what: 'no object', value: null },
    { what: 'another kind with descriptors', value: { kind: 'commit' }, fds: 300 },
    {
      what: 'a refusal with descriptors',
      value: { kind: 'refused', reason: 'it is an Usher on its way' },
      fds: 3,
    },
    { what: 'a refusal without a reason', value: { kind: 'refused' } },
    { what: 'no list', value: { kind: 'sockets' }, fds: 3 },
    { what: 'more descriptors than it says', value: sockets({}), fds: 3 },
    { what: 'fewer descriptors than it says', value: sockets({ fds: 4 }), fds: 3 },
    { what: 'a negative number of them', value: sockets({ fds: -1 }), fds: 3 },
    { what: 'a part of one', value: sockets({ fds: 1.5 }), fds: 2 },
    { what: 'no address', value: sockets({ bind: undefined }), fds: 1 },
    {
      what: 'an address of another shape',
      value: sockets({ bind: { address: 5, port: 'x' } }),
      fds: 1,
    },
    { what: 'another protocol', value: sockets({ protocol: 'SCTP' }), fds: 1 },
    { what: 'as many descriptors as there may be', value: sockets({}), fds: 65_536 },
  ]
  for (const { what, value, fds = 0 } of insteadOfSockets)
    await t.test(`instead of sockets: ${what}`, async t => {
      const one = await setUp(t)
      const before = openFds()
      const door = openDoor(calls)
      const taking = outcome(
        one.relay.takeOver({ ...door, name: door.name, token: door.token, refused: '' }),
      )
      const channel = await door.accept(ms)
      t.match(await channel.receive(ms), { value: { kind: 'take', workers: 2 } })
      await outcome(channel.send(value, some(fds), ms))
      const taken = await taking
      isPlain(t, typeof taken === 'string' ? taken : taken.refused)
      t.equal(await one.relay.finishTakeOver(), undefined)
      channel.close()
      await until('no descriptor is left', () => openFds() <= before, 3000)
      t.equal(await one.echoOf(), 'word', 'it serves what it has opened itself')
      t.strictSame(one.faults, [])
    })

  const connection = {
    listener: 'test',
    endpoint: { key: '127.0.0.1:1', address: '127.0.0.1', port: 1 },
    peer: Array<number>(7).fill(0).with(0, 2),
    acceptedMs: 5,
    connectedMs: 5,
    heldMs: 0,
    queuedMs: 0,
    awaitsAnswer: false,
    asksTls: false,
    attempts: [],
    client: { flags: 0, bytes: 0, piped: 0 },
    backend: { flags: 0, bytes: 0, piped: 0 },
  }
  const given = (over: object) => ({
    kind: 'connections',
    connections: [{ ...connection, ...over }],
  })
  const insteadOfConnections: readonly Said[] = [
    { what: 'another kind', value: { kind: 'sockets' }, fds: 2 },
    { what: 'no object', value: null, fds: 2 },
    { what: 'no list', value: { kind: 'connections' }, fds: 2 },
    { what: 'more descriptors than it says', value: given({}), fds: 3 },
    { what: 'fewer descriptors than it says', value: given({}), fds: 1 },
    { what: 'none', value: given({}), fds: 0 },
    {
      what: 'a pipe without its ends',
      value: given({ client: { flags: 0, bytes: 0, piped: 9 } }),
      fds: 2,
    },
    {
      what: 'a negative number of bytes in one',
      value: given({ client: { flags: 0, bytes: 0, piped: -9 } }),
      fds: 2,
    },
    { what: 'a listener that there is not', value: given({ listener: 'none' }), fds: 2 },
    { what: 'no endpoint', value: given({ endpoint: undefined }), fds: 2 },
    { what: 'no side', value: given({ client: undefined }), fds: 2 },
    { what: 'no client', value: given({ peer: [] }), fds: 2 },
    { what: 'times in words', value: given({ acceptedMs: 'long' }), fds: 2 },
    {
      what: 'held bytes that are no text',
      value: given({ client: { flags: 0, bytes: 0, piped: 0, held: 5 } }),
      fds: 2,
    },
    { what: 'as many descriptors as there may be', value: given({}), fds: 65_536 },
  ]
  for (const { what, value, fds = 0 } of insteadOfConnections)
    await t.test(`instead of connections: ${what}`, async t => {
      const one = await setUp(t)
      const before = openFds()
      const { used } = one.relay.stats().fds
      const door = openDoor(calls)
      const taking = outcome(
        one.relay.takeOver({ name: door.name, token: door.token, refused: '' }),
      )
      const channel = await door.accept(ms)
      await channel.receive(ms)
      await channel.send({ kind: 'sockets', sockets: [] }, [], ms)
      t.match(await taking, { refused: '', sockets: [] })
      const finishing = outcome(one.relay.finishTakeOver())
      t.match(await channel.receive(ms), {
        value: { kind: 'ready', listeners: ['test'] },
      })
      await channel.send({ kind: 'yours', counted: [] }, [], ms)
      const sent = await outcome(channel.send(value, some(fds), ms))
      const answer = await outcome(channel.receive(ms))
      t.notMatch(answer, { value: { kind: /^kept$/ } })
      if (typeof answer === 'object') {
        const { reason } = answer.value as { reason?: unknown }
        isPlain(t, reason)
        await channel.send({ kind: 'over', staying: {}, counted: [] }, [], ms)
      }
      const taken = await finishing
      t.match(taken, { connections: 0 })
      if (answer === undefined) isPlain(t, typeof taken === 'object' ? taken.lost : taken)
      t.comment(sent)
      channel.close()
      await until('no descriptor is left', () => openFds() <= before, 3000)
      t.equal(one.relay.stats().fds.used, used)
      t.equal(one.stats().counters.active, 0)
      t.equal(await one.echoOf(), 'word', 'it serves on')
      t.strictSame(one.faults, [])
    })

  const insteadOfYours: readonly Said[] = [
    { what: 'another kind', value: { kind: 'commit' }, fds: 3 },
    { what: 'no object', value: null },
    { what: 'no list', value: { kind: 'yours' } },
    {
      what: 'a listener that there is not',
      value: {
        kind: 'yours',
        counted: [{ listener: 'none', counters: {}, endpoints: [] }],
      },
    },
    { what: 'no counters', value: { kind: 'yours', counted: [{ listener: 'test' }] } },
    {
      what: 'counters in words',
      value: {
        kind: 'yours',
        counted: [{ listener: 'test', counters: { accepted: 'many' }, endpoints: [] }],
      },
    },
  ]
  for (const { what, value, fds = 0 } of insteadOfYours)
    await t.test(`instead of yours: ${what}`, async t => {
      const one = await setUp(t)
      const before = openFds()
      const door = openDoor(calls)
      const taking = outcome(
        one.relay.takeOver({ name: door.name, token: door.token, refused: '' }),
      )
      const channel = await door.accept(ms)
      await channel.receive(ms)
      await channel.send({ kind: 'sockets', sockets: [] }, [], ms)
      await taking
      const finishing = outcome(one.relay.finishTakeOver())
      await channel.receive(ms)
      await outcome(channel.send(value, some(fds), ms))
      await outcome(channel.send({ kind: 'over', staying: {}, counted: [] }, [], ms))
      const taken = await finishing
      t.type(taken, 'object')
      if (typeof taken === 'object' && taken.lost !== '') isPlain(t, taken.lost)
      channel.close()
      await until('no descriptor is left', () => openFds() <= before, 3000)
      t.equal(await one.echoOf(), 'word', 'it serves on')
      t.ok(one.stats().counters.accepted >= 1, 'counters are numbers')
      t.strictSame(one.faults, [])
    })
  t.end()
})
