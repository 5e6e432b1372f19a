import { findNodeProxy, type NodeProxy } from '../kernel/cleanup/node-proxy.ts'
import { type Clock, systemClock } from '../util/clock.ts'
import type { Io } from './io.ts'

/** For so long an Usher that drains is waited for; its --drain-timeout may be longer. */
const longestDrainMs = 60_000
const lookMs = 250

export interface BesideDeps {
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
  for (let looks = 0; ; looks += 1) {
    const proxy = await find()
    if (proxy?.usher !== 'draining' || clock.now() > until) {
      if (proxy !== undefined) say(proxy, io)
      return proxy
    }
    // It has given up its rules, and still carries connections that depend on them.
    if (looks === 0) io.out('an Usher is ending here; waiting for its connections\n')
    await new Promise<void>(resolve => void clock.setTimeout(resolve, lookMs))
  }
}

const say = ({ mode, usher }: NodeProxy, io: Io): void => {
  if (usher === undefined)
    io.out(`a proxy in mode ${mode} serves this node: what is its own stays\n`)
  if (usher === 'draining')
    io.err(
      `usher cleanup: the Usher that is ending here still carries connections after ${longestDrainMs / 1000} s ` +
        '(see its --drain-timeout), and they would be cut: nothing was removed. Wait for its end, or ' +
        'end it at once by a second SIGTERM; then run this again\n',
    )
}
