import { connectTimeLock, type HostLock, SocketLock } from '../kernel/keeper/host-lock.ts'
import type { OptionsOf } from '../config/options.ts'
import { cleanUp, type Outcome } from '../kernel/cleanup/clean-up.ts'
import { connectTimeKind } from '../kernel/cleanup/connect-time.ts'
import { hostKinds } from '../kernel/cleanup/host-kinds.ts'
import { permissionAdvice } from '../kernel/permission-advice.ts'
import { systemClock, type Clock } from '../util/clock.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'
import { keptForOtherProxy } from '../kernel/cleanup/kept-objects.ts'
import { findNodeProxy, type NodeProxy } from '../kernel/cleanup/node-proxy.ts'

/**
 * `usher cleanup`: 0 when there was nothing or all of it is gone (in a dry run: would go),
 * 1 when something stayed or could not be looked for.
 */
export const cleanup = async (
  { dryRun, onlyUsher, connectTimeBpffs }: OptionsOf<'cleanup'>,
  io: Io,
): Promise<number> => {
  const locks = [await takeLock(), await takeLock(connectTimeLock)]
  const holder = locks.find(each => each.holder !== '')?.holder ?? ''
  try {
    if (holder !== '')
      io.err(
        `usher cleanup: an Usher is running here (${visible(holder)}); end it first\n`,
      )
    // It would put everything back at once.
    if (holder !== '' && !dryRun) return 1
    const proxy = holder === '' ? await proxyBeside(io) : undefined
    if (proxy?.usher === 'draining') return 1
    // Connections of an Usher that drains depend on its rules, and a kube-proxy's on all that it has.
    if (proxy?.mode === '' && !onlyUsher) {
      io.err(silent)
      return 1
    }
    // It has the port by which a kube-proxy would be known.
    const mayHide = !onlyUsher && proxy?.usher === 'serving'
    const isOther = onlyUsher || proxy !== undefined
    const mode = onlyUsher || mayHide ? undefined : proxy?.mode
    const kinds = [
      connectTimeKind(connectTimeBpffs),
      ...hostKinds(isOther ? keptForOtherProxy(mode) : {}),
    ]
    const removed = await cleanUp(kinds, { dryRun })
    const outcome = mayHide ? await withKept(removed) : removed
    if (mayHide) io.err(hiding)
    print(outcome, dryRun, io)
    const { stayed, hidden } = outcome
    return stayed.length + hidden.length === 0 && holder === '' ? 0 : 1
  } finally {
    await Promise.all(locks.map(({ lock }) => lock.release()))
  }
}

const hiding =
  'usher cleanup: an Usher without rules answers on port 10249, where a kube-proxy that runs here ' +
  'would: what may belong to a kube-proxy stays. End that Usher, or give it another --metrics-bind-address, and ' +
  'run this again; or use --only-usher to keep it\n'

const silent =
  'usher cleanup: a program listens on port 10249, where the proxy of a node is recognised by its answer, and has not ' +
  'answered for 10 s: nothing was removed. Run this again when the node is less busy or that program has ' +
  'ended; or use --only-usher, which keeps what a kube-proxy may own\n'

/** With all that stays because a kube-proxy may have it that can't be seen. */
const withKept = async (outcome: Outcome): Promise<Outcome> => {
  const all = await cleanUp(hostKinds(), { dryRun: true })
  const named = new Set([...outcome.gone, ...outcome.stayed.map(({ what }) => what)])
  const kept = all.gone.filter(what => !named.has(what))
  const reason = "it may belong to a kube-proxy that can't be seen"
  return {
    ...outcome,
    stayed: [...outcome.stayed, ...kept.map(what => ({ what, reason }))],
  }
}

interface Taken {
  readonly lock: HostLock
  /** Who has it instead; '' when it is ours. */
  readonly holder: string
}

/** Held to the end, so that an Usher that starts meanwhile waits with its rules. */
const takeLock = async (lockName?: string): Promise<Taken> => {
  let holder = ''
  const lock = new SocketLock({
    clock: systemClock,
    ...(lockName !== undefined && { name: lockName }),
    self: `usher cleanup ${version()}, pid ${process.pid}`,
    waiting: name => {
      holder = name
      void lock.release()
    },
  })
  await lock.acquire()
  return { lock, holder }
}

const print = (outcome: Outcome, dryRun: boolean, io: Io): void => {
  const { gone, stayed, hidden, unseen } = outcome
  const done = dryRun ? 'would remove' : 'removed'
  for (const what of gone) io.out(`${done} ${visible(what)}\n`)
  // A node without the tool has seldom what the tool makes, but it may.
  for (const what of unseen) io.out(`not looked for: ${visible(what)}\n`)
  for (const { what, reason } of stayed)
    io.err(`usher cleanup: ${visible(what)} stays: ${visible(reason)}\n`)
  for (const { what, reason } of hidden)
    io.err(`usher cleanup: can't look for ${visible(what)}: ${visible(reason)}\n`)
  const advice = permissionAdvice(
    [...stayed, ...hidden].map(({ reason }) => reason).join('\n'),
  )
  if (advice !== '') io.err(`usher cleanup: ${advice}\n`)
  if (gone.length + stayed.length + hidden.length === 0)
    io.out(unseen.length === 0 ? 'nothing to clean up\n' : 'nothing else to clean up\n')
}

/** For so long an Usher that drains is waited for; its --drain-timeout may be longer. */
const longestDrainMs = 60_000
const pollMs = 250

interface BesideDeps {
  readonly find?: () => Promise<NodeProxy | undefined>
  readonly clock?: Clock
}

/**
 * The proxy that answers for this node while no Usher has rules; says what that means.
 * Waits for an Usher that drains: one that is `draining` still then is not to be disturbed.
 */
export const proxyBeside = async (
  io: Io,
  { find = findNodeProxy, clock = systemClock }: BesideDeps = {},
): Promise<NodeProxy | undefined> => {
  const until = clock.now() + longestDrainMs
  for (let polls = 0; ; polls += 1) {
    const proxy = await find()
    if (proxy?.usher !== 'draining' || clock.now() > until) {
      if (proxy !== undefined) printProxy(proxy, io)
      return proxy
    }
    // It has given up its rules, and still carries connections that depend on them.
    if (polls === 0) io.out('an Usher is ending here; waiting for its connections\n')
    await new Promise<void>(resolve => void clock.setTimeout(resolve, pollMs))
  }
}

const printProxy = ({ mode, usher }: NodeProxy, io: Io): void => {
  if (usher === undefined && mode !== '')
    io.out(`a proxy in mode ${mode} serves this node: what is its own stays\n`)
  if (usher === 'draining')
    io.err(
      `usher cleanup: the Usher that is ending here still carries connections after ${longestDrainMs / 1000} s ` +
        '(see its --drain-timeout), and they would be cut: nothing was removed. Wait for its end, or ' +
        'end it at once by a second SIGTERM; then run this again\n',
    )
}
