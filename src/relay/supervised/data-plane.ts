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
import type { Order, Report, Setup } from './messages.ts'
import { RelayServer } from './relay-server.ts'
import { errorOf, messageOf } from '../../util/usher-error.ts'

const report = (what: Report, then = (): void => {}): void => {
  // With a callback, a parent that has just gone is no uncaught error.
  if (process.connected) process.send?.(what, undefined, {}, then)
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
// However the parent went. An orderly exit would wait for threads that wait in the kernel.
const orphaned = (): void => void process.kill(process.pid, 'SIGKILL')
process.on('disconnect', orphaned)
if (!process.connected) orphaned()
