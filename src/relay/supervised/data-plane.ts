/**
 * The data plane: a relay in a process of its own, which starts no other program, has
 * little to lose, and whose crash does not end the control plane. Started by
 * supervise-relay.ts, which tells it what to do by IPC; it lives no longer than its parent.
 */
import { systemClock } from '../../util/clock.ts'
import { RelayUnavailable } from '../choose-relay.ts'
import { makeRelay } from '../make-relay.ts'
import { ownPrivileges } from '../privileges.ts'
import { Outbox } from '../remote/outbox.ts'
import type { RelayEngine } from '../engine/relay-engine.ts'
import type { Order, OrphanPlace, Report, Setup } from './messages.ts'
import { RelayServer } from './relay-server.ts'
import { errorOf, messageOf } from '../../util/usher-error.ts'

/** Milliseconds for what could not be handed over. */
const leftMs = 2000

/** An orderly exit would wait for threads that wait in the kernel. */
const endAtOnce = (): void => void process.kill(process.pid, 'SIGKILL')
let whenOrphaned = endAtOnce

const report = (what: Report, then = (): void => {}): void => {
  // With a callback, a parent that has just gone is no uncaught error.
  if (process.connected) process.send?.(what, undefined, {}, then)
}

/** Without its parent it serves on until another one's data plane has taken over, or the time is over. */
const serveOrphaned = async (relay: RelayEngine, place: OrphanPlace): Promise<void> => {
  try {
    await relay.handOver(place)
    const { refused } = await relay.handedOver()
    if (refused === '') await relay.drain(leftMs)
  } finally {
    endAtOnce()
  }
}

const setUp = async (setup: Setup): Promise<void> => {
  const outbox = new Outbox(systemClock, setup.wantedCauses, news => {
    report({ kind: 'news', news })
  })
  const { limits, openFileLimit, workers } = setup
  const { relay, choice } = await makeRelay(setup.relay, {
    clock: systemClock,
    limits,
    observer: outbox,
    openFileLimit,
    workers,
  })
  const { orphan } = setup
  if (orphan !== undefined && choice.name === 'linux')
    whenOrphaned = () => void serveOrphaned(relay, orphan)
  const server = new RelayServer(relay, outbox)
  process.on('message', (order: Order) => {
    if (order.kind === 'news-taken') outbox.taken()
    if (order.kind === 'node-clients') relay.setNodeClients(order.clients)
    if (order.kind !== 'call') return
    const { id, call } = order
    server.handle(call).then(
      result => report({ kind: 'done', id, result }),
      (reason: unknown) => report({ kind: 'failed', id, error: errorOf(reason) }),
    )
  })
  report({ kind: 'ready', self: { choice, privileges: ownPrivileges() } })
}

const cannotStart = (error: unknown): void => {
  const unavailable = error instanceof RelayUnavailable
  const reason = messageOf(error)
  report({ kind: 'cannot-start', reason, unavailable }, () => process.exit(1))
}

process.on('message', (order: Order) => {
  if (order.kind === 'setup') setUp(order.setup).catch(cannotStart)
  else if (order.kind === 'ping') report({ kind: 'pong' })
  else if (order.kind === 'exit') process.exit(0)
})
// Signals of a terminal reach the whole group: the parent decides when connections end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {})
// However the parent went.
process.on('disconnect', () => whenOrphaned())
if (!process.connected) whenOrphaned()
