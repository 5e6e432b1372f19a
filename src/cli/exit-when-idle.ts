import type { Log } from '../observe/log.ts'
import type { RunningProxy } from '../proxy/options.ts'
import type { Stop } from './stop.ts'

export interface ExitWhenIdle {
  readonly stop: Stop
  readonly proxy: Pick<RunningProxy, 'connections'>
  readonly idleMs: number
  readonly log: Log
}

/** How often it is looked at: four times in the idle time, at most once a second. */
const periodOf = (idleMs: number): number => Math.min(1000, Math.max(10, idleMs / 4))

/**
 * Asks Usher to end when no connection has been open for `idleMs`. Before the first one it waits
 * for ever: the application may take long to begin. Gives what ends the watch.
 */
export const exitWhenIdle = ({
  stop,
  proxy,
  idleMs,
  log,
}: ExitWhenIdle): (() => void) => {
  let before = 0
  let idleSince: number | undefined
  const look = async (): Promise<void> => {
    const { open, accepted } = await proxy.connections()
    const now = performance.now()
    // One that came and went since the last look counts too.
    const isIdle = open === 0 && accepted === before
    before = accepted
    idleSince = isIdle ? (idleSince ?? now) : undefined
    if (accepted === 0 || idleSince === undefined || now - idleSince < idleMs) return
    const idle = Math.round(now - idleSince)
    const reason = `nothing has been open for ${idle} ms (--exit-when-idle)`
    stop.request({ code: 0, reason })
  }
  const timer = setInterval(() => {
    look().catch((err: unknown) =>
      log.error({ err }, 'how many connections are open is not known'),
    )
  }, periodOf(idleMs))
  return () => clearInterval(timer)
}
