import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { ask, askUnchecked, serve } from './servers.ts'
import { testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

const none = { idle: 0, busy: 0, busiest: 0 }
const few = { idle: 5, busy: 3, busiest: 2 }

/** An echo; `answer` may have it say something else. */
const serveEcho = async (
  t: Parameters<typeof serve>[0],
  answer: (heard: Buffer) => Buffer = heard => heard,
) => {
  const sockets: Socket[] = []
  const to = await serve(t, socket => {
    sockets.push(socket)
    socket.on('data', heard => socket.write(answer(heard)))
  })
  return { to, sockets }
}

t.test('sessions stay open from question to question', async t => {
  const { to, sockets } = await serveEcho(t)
  const keep = (wanted: typeof few) =>
    askUnchecked({ kind: 'kept-sessions', to, ...wanted }, 0)
  t.teardown(() => keep(none))
  t.match(await keep(few), { done: 0, tried: 0, pauses: [], errors: {} })
  t.equal(sockets.length, 10)
  const kept = await keep(few)
  t.match(kept, { done: 10, tried: 10, errors: {} })
  t.equal(kept.pauses?.length, 2)
  t.equal(sockets.length, 10)

  for (const socket of sockets.slice(0, 4)) socket.resetAndDestroy()
  const cut = await keep(few)
  t.match(cut, { done: 6, tried: 10 })
  t.equal(sockets.length, 14, 'those that are missing are opened')
  t.match(await keep(few), { done: 10, tried: 10, errors: {} })
  // Closed by the client.
  t.match(await keep(none), { done: 10, errors: {} })
  await until('all are closed', () => sockets.every(({ closed }) => closed))
})

t.test('nothing is left of them at the end', async t => {
  const { to } = await serveEcho(t)
  await ask({ kind: 'kept-sessions', to, ...none })
})

t.test('an echo that stands still is seen in the pauses', async t => {
  const pauseMs = 150
  let isHeld = false
  const held: (() => void)[] = []
  const to = await serve(t, socket =>
    socket.on('data', heard => {
      const answer = (): void => void socket.write(heard)
      if (isHeld) held.push(answer)
      else answer()
    }),
  )
  const keep = (wanted: typeof few) =>
    askUnchecked({ kind: 'kept-sessions', to, ...wanted }, 0)
  t.teardown(() => keep(none))
  await keep({ ...none, busiest: 2 })
  isHeld = true
  await until('bytes are held', () => held.length > 0)
  await new Promise(resolve => setTimeout(resolve, pauseMs))
  isHeld = false
  for (const answer of held) answer()
  const { pauses = [], done } = await keep(none)
  t.equal(done, 2)
  // Timers may end within the last millisecond.
  t.ok(
    pauses.every(pause => pause > pauseMs - 20),
    pauses.join(),
  )
})

t.test('a byte that is another one ends a session', async t => {
  let isWrong = false
  const { to } = await serveEcho(t, heard =>
    isWrong ? Buffer.from(heard.map(byte => byte ^ 1)) : heard,
  )
  const keep = (wanted: typeof few) =>
    askUnchecked({ kind: 'kept-sessions', to, ...wanted }, 0)
  t.teardown(() => keep(none))
  await keep(few)
  isWrong = true
  t.match(await keep(none), { done: 0, tried: 10, errors: { 'wrong byte': 10 } })
})

/** Tells a port in the octets after what it has heard; answers as long as it is to. */
const serveFlows = async (told: { port: number; answers: boolean }) => {
  const socket = createSocket('udp4')
  socket.on('message', (message, { port, address }) => {
    const end = Buffer.of(told.port >> 8, told.port & 255)
    if (told.answers) socket.send(Buffer.concat([message, end]), port, address)
  })
  socket.bind(0, testHost)
  await once(socket, 'listening')
  return { socket, to: { address: testHost, port: socket.address().port } }
}

t.test('flows that move or lose datagrams are told apart', async t => {
  const told = { port: 1, answers: true }
  const { socket, to } = await serveFlows(told)
  const keep = (flows: number) => askUnchecked({ kind: 'kept-flows', to, flows }, 0)
  t.teardown(() => socket.close())
  t.teardown(() => keep(0))
  t.match(await keep(3), { done: 0, tried: 0, errors: {} })
  t.match(await keep(3), { done: 3, tried: 3, errors: {} })
  await new Promise(resolve => setTimeout(resolve, 100))
  told.port = 2
  await new Promise(resolve => setTimeout(resolve, 100))
  t.match(await keep(3), { done: 0, tried: 3, errors: { 'another endpoint': 3 } })
  told.answers = false
  await new Promise(resolve => setTimeout(resolve, 100))
  const lost = await keep(0)
  t.match(lost, { done: 0, tried: 3, errors: { lost: Number } })
})
