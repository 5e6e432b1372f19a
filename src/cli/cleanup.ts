import { setTimeout as sleep } from 'node:timers/promises'
import { type HostLock, hostLock } from '../capture/host-lock.ts'
import type { OptionsOf } from '../config/typed.ts'
import { cleanUp, type Outcome } from '../kernel/cleanup/clean-up.ts'
import { hostKinds } from '../kernel/cleanup/host-kinds.ts'
import { findNodeProxy } from '../kernel/cleanup/node-proxy.ts'
import { othersThings } from '../kernel/cleanup/others-things.ts'
import { systemClock } from '../util/clock.ts'
import type { Io } from './io.ts'
import { version } from './version.ts'
import { visible } from './words.ts'

/**
 * `usher cleanup`: 0 when there was nothing or all of it is gone (in a dry run: would go),
 * 1 when something stayed or nobody could look.
 */
export const cleanup = async (
  { dryRun, onlyUsher }: OptionsOf<'cleanup'>,
  io: Io,
): Promise<number> => {
  const { lock, holder } = await takeLock()
  try {
    if (holder !== '')
      io.err(
        `usher cleanup: an Usher is running here (${visible(holder)}); end it first\n`,
      )
    // It would put everything back at once.
    if (holder !== '' && !dryRun) return 1
    const proxy = holder === '' ? await nodeProxy(io) : undefined
    const isKept = onlyUsher || proxy !== undefined
    const inUse = isKept ? othersThings(onlyUsher ? undefined : proxy) : {}
    const outcome = await cleanUp(hostKinds(inUse), { dryRun })
    print(outcome, dryRun, io)
    const { stayed, hidden } = outcome
    return stayed.length + hidden.length === 0 && holder === '' ? 0 : 1
  } finally {
    await lock.release()
  }
}

/** For so long connections of a userspace Usher may take to end. */
const longestDrainMs = 60_000
const lookMs = 250

/** The mode of another proxy that serves this node; waits for an Usher that ends. */
const nodeProxy = async (io: Io): Promise<string | undefined> => {
  const until = systemClock.now() + longestDrainMs
  for (let looks = 0; ; looks += 1) {
    const proxy = await findNodeProxy()
    if (proxy === undefined) return undefined
    if (!proxy.isUsher) {
      io.out(`a proxy in mode ${proxy.mode} serves this node: what is its own stays\n`)
      return proxy.mode
    }
    // It has let go of its rules, and still carries connections that go by them.
    if (looks === 0) io.out('an Usher is ending here; waiting for its connections\n')
    if (systemClock.now() > until) return undefined
    await sleep(lookMs)
  }
}

interface Taken {
  readonly lock: HostLock
  /** Who has it instead; '' when it is ours. */
  readonly holder: string
}

/** Held to the end, so that an Usher that starts meanwhile waits with its rules. */
const takeLock = async (): Promise<Taken> => {
  let holder = ''
  const lock = hostLock({
    clock: systemClock,
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
  for (const { what, why } of stayed)
    io.err(`usher cleanup: ${visible(what)} stays: ${visible(why)}\n`)
  for (const { what, why } of hidden)
    io.err(`usher cleanup: can't look for ${visible(what)}: ${visible(why)}\n`)
  if (gone.length + stayed.length + hidden.length === 0)
    io.out(unseen.length === 0 ? 'nothing to clean up\n' : 'nothing else to clean up\n')
}
