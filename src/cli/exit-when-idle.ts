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
  let lastSeen = performance.now()
  const look = async (): Promise<void> => {
    const { open, accepted } = await proxy.connections()
    const now = performance.now()
    // One that came and went since the last look counts too.
    if (open > 0 || accepted !== before) lastSeen = now
    before = accepted
    if (accepted === 0 || now - lastSeen < idleMs) return
    const reason = `nothing has been open for ${Math.floor(now - lastSeen)} ms (--exit-when-idle)`
    stop.request({ code: 0, reason })
  }
  const timer = setInterval(() => {
    look().catch((err: unknown) =>
      log.error({ err }, 'how many connections are open is not known'),
    )
  }, periodOf(idleMs))
  return () => clearInterval(timer)
}
