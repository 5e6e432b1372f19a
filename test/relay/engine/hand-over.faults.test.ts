import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { Inheritance, TakenOver } from '../../../src/relay/relay.ts'
import { messageOf } from '../../../src/util/usher-error.ts'
import { flood, type Flooded } from '../../support/flood.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayOfTwo } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { listenerSpec, relayFixture } from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'
import type { ChildCall, Step } from './hand-over-mortal.ts'

type Args<K extends ChildCall['name']> = Omit<
  Extract<ChildCall, { name: K }>,
  'id' | 'name'
>

/** A relay in a process of its own that dies at `step`. Calls that it does not live to answer are rejected. */
const child = async (t: Test, step: Step) => {
  const program = fileURLToPath(new URL('hand-over-mortal.ts', import.meta.url))
  const { PATH } = process.env
  const process_ = spawn(process.execPath, [typescript, program, step], {
    env: { PATH },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = once(process_, 'exit')
  t.teardown(async () => {
    process_.kill('SIGKILL')
    await exited
  })
  const waiting = new Map<
    number,
    (message: { result?: unknown; error?: string }) => void
  >()
  process_.on('message', message => {
    const answer = message as { id: number; result?: unknown; error?: string }
    waiting.get(answer.id)?.(answer)
  })
  void exited.then(() => waiting.forEach(settle => settle({ error: 'it has died' })))
  const answered = (id: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      waiting.set(id, ({ result, error }) => {
        waiting.delete(id)
        if (error === undefined) resolve(result)
        else reject(new Error(error))
      })
    })
  await answered(0)
  let id = 0
  const call = <K extends ChildCall['name'], R>(name: K, args: Args<K>): Promise<R> => {
    id += 1
    process_.send({ id, name, ...args })
    return answered(id) as Promise<R>
  }
  return { call, exited, pid: process_.pid ?? -1 }
}

/** The kernel deals them out to two workers: each gets some, but for once in 30,000 times. */
const many = 16

/** Clients over a port, and both ends of each connection. */
const setUp = async (t: Test) => {
  const port = await freeTcpPort()
  const ends: Flooded[] = []
  const backend = await tcpBackend(t, socket => void ends.push(flood(socket)))
  const listeners = [
    listenerSpec({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] }),
  ]
  const connect = async (): Promise<{ clients: Flooded[]; ends: Flooded[] }> => {
    const sockets = Array.from({ length: many }, () => dial(t, port))
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    const clients = sockets.map(socket => flood(socket))
    await until(
      'all are connected',
      () => ends.length === many && ends.every(one => one.received() > 0),
    )
    return { clients, ends }
  }
  return { port, backend, listeners, connect }
}

/** Sends on for a while, then ends all in order; how many were cut. Checks every byte of the others. */
const settle = async (
  t: Test,
  { clients, ends }: { clients: Flooded[]; ends: Flooded[] },
): Promise<number> => {
  const all = [...clients, ...ends]
  // What is sent from now on: of a connection that is cut much more may still lie in queues.
  const mark = Math.max(...all.map(one => one.sent()))
  await until('each one moves, or is cut', () =>
    all.every(one => one.state() !== 'open' || one.received() > mark),
  )
  t.notOk(
    all.some(one => one.state() === 'ended'),
    'none has a FIN that was not sent',
  )
  for (const one of all) one.stop()
  await until('all have ended', () => all.every(one => one.state() !== 'open'))
  const cut = (some: Flooded[]) => some.filter(one => one.state() !== 'ended')
  for (const one of [...cut(clients), ...cut(ends)])
    t.match(one.state(), /^(ECONNRESET|EPIPE)$/)
  t.equal(cut(clients).length, cut(ends).length, 'cut on both sides')
  for (const one of all) t.equal(one.firstWrong(), -1)
  const whole = (some: Flooded[], of: 'sent' | 'received'): number[] =>
    some
      .filter(one => one.state() === 'ended')
      .map(one => one[of]())
      .toSorted((a, b) => a - b)
  t.strictSame(whole(ends, 'received'), whole(clients, 'sent'))
  t.strictSame(whole(clients, 'received'), whole(ends, 'sent'))
  return cut(clients).length
}

const openFds = (): number => readdirSync('/proc/self/fd').length

const outcome = async <T>(promise: Promise<T>): Promise<T | string> => {
  try {
    return await promise
  } catch (error) {
    return messageOf(error)
  }
}

/** How many connections it says to have given, or taken; -1 when it has failed. */
const givenTo = (done: { readonly connections: number } | string | undefined): number =>
  typeof done === 'object' ? done.connections : -1

interface Death {
  readonly step: Step
  /** Which ones are cut: those that the dead one had; 'some': of one worker of two. */
  readonly cut: 'none' | 'some' | 'all'
  /** Whether the one that lives accepts afterwards. */
  readonly accepts: boolean
}

const deathsOfNewOne: readonly Death[] = [
  { step: 'before take', cut: 'none', accepts: true },
  { step: 'sent take', cut: 'none', accepts: true },
  { step: 'received sockets', cut: 'none', accepts: true },
  { step: 'before ready', cut: 'none', accepts: true },
  { step: 'sent ready', cut: 'none', accepts: true },
  { step: 'received yours', cut: 'none', accepts: true },
  { step: 'received connections', cut: 'none', accepts: false },
  { step: 'before kept', cut: 'none', accepts: false },
  { step: 'sent kept', cut: 'none', accepts: false },
  { step: 'received commit', cut: 'none', accepts: false },
  { step: 'received connections 2', cut: 'some', accepts: false },
  { step: 'received over', cut: 'all', accepts: false },
]

const newOneDies = async (t: Test, { step, cut, accepts }: Death): Promise<void> => {
  const { port, listeners, connect } = await setUp(t)
  const { relay, faults, stats } = relayFixture(t, makeLinuxRelayOfTwo)
  await relay.apply(listeners)
  const ends = await connect()
  const other = await child(t, step)
  const before = openFds()
  const place = await relay.handOver()
  const over = outcome(relay.handedOver())
  const taking = (async () => {
    await other.call('takeOver', { place })
    await other.call('apply', { listeners })
    await other.call('finishTakeOver', {})
  })()
  t.equal(await outcome(taking), 'it has died')
  const handed = await over
  if (accepts) t.type(handed, 'string', 'it says why')
  else t.match(handed, { refused: '' })
  t.comment(typeof handed === 'string' ? handed : JSON.stringify(handed))
  const lost = await settle(t, ends)
  t.equal(lost, { none: 0, some: givenTo(handed), all: many }[cut])
  if (cut === 'some') t.ok(lost > 0 && lost < many, `${lost} were the dead one's`)
  const dialled = dial(t, port)
  const answer = await Promise.race([
    once(dialled, 'data').then(() => 'accepts'),
    once(dialled, 'error').then(() => 'refuses'),
  ]).catch(error => (error as NodeJS.ErrnoException).code)
  t.equal(answer, accepts ? 'accepts' : 'ECONNREFUSED')
  dialled.destroy()
  await until('nothing is left', () => stats().counters.active === 0)
  t.strictSame(faults, [])
  if (accepts) await until('no descriptor is left', () => openFds() <= before)
}

const deathsOfOldOne: readonly Death[] = [
  { step: 'received take', cut: 'all', accepts: true },
  { step: 'before sockets', cut: 'all', accepts: true },
  { step: 'sent sockets', cut: 'all', accepts: true },
  { step: 'received ready', cut: 'all', accepts: true },
  { step: 'before yours', cut: 'all', accepts: true },
  { step: 'sent yours', cut: 'all', accepts: true },
  { step: 'before connections', cut: 'all', accepts: true },
  { step: 'sent connections', cut: 'some', accepts: true },
  { step: 'received kept', cut: 'some', accepts: true },
  { step: 'before commit', cut: 'some', accepts: true },
  { step: 'sent commit', cut: 'some', accepts: true },
  { step: 'before connections 2', cut: 'some', accepts: true },
  { step: 'sent connections 2', cut: 'none', accepts: true },
  { step: 'before over', cut: 'none', accepts: true },
  { step: 'sent over', cut: 'none', accepts: true },
]

const oldOneDies = async (t: Test, { step, cut }: Death): Promise<void> => {
  const { port, listeners, connect } = await setUp(t)
  const other = await child(t, step)
  await other.call('apply', { listeners })
  const ends = await connect()
  const { relay, faults, stats } = relayFixture(t, makeLinuxRelayOfTwo)
  const place = await other.call<'handOver', Awaited<ReturnType<typeof relay.handOver>>>(
    'handOver',
    {},
  )
  const taken = await outcome<Inheritance>(relay.takeOver(place))
  await relay.apply(listeners)
  const finished = await outcome<TakenOver | undefined>(relay.finishTakeOver())
  await other.exited
  t.comment(JSON.stringify([taken, finished]))
  const lost = await settle(t, ends)
  t.equal(lost, { none: 0, some: many - givenTo(finished), all: many }[cut])
  if (cut === 'some') t.ok(lost > 0 && lost < many, `${lost} were the dead one's`)
  // The kernel may have had its port a moment longer.
  await until('it listens', () => stats().binds[0]?.state === 'listening')
  const dialled = dial(t, port)
  await once(dialled, 'data')
  dialled.destroy()
  await until('nothing is left', () => stats().counters.active === 0)
  t.strictSame(faults, [])
}

t.test('one of the two dies', { skip: linuxRelaySkip() }, async t => {
  for (const death of deathsOfNewOne)
    await t.test(`the new one: ${death.step}`, t => newOneDies(t, death))
  for (const death of deathsOfOldOne)
    await t.test(`the old one: ${death.step}`, t => oldOneDies(t, death))
  t.end()
})
