import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../util/clock.ts'
import { startBackground } from './background.ts'
import { figuresHeader, figuresLine, figuresOf } from './figures.ts'
import type { Screen } from './screen.ts'
import type { Stage } from './stage.ts'

interface LiveDeps {
  readonly stage: Pick<Stage, 'status' | 'look'>
  readonly screen: Screen
  readonly clock: Clock
  /** Milliseconds between two lines of figures. */
  readonly everyMs: number
  readonly stop: AbortSignal
}

/** Lines after which the header is said again, before it has scrolled away. */
const headerEvery = 20

const waited = (ms: number, signal: AbortSignal): Promise<boolean> =>
  sleep(ms, true, { signal }).catch(() => false)

/** Sends gentle traffic and shows a line of figures a second until `stop`. */
export const live = async (deps: LiveDeps): Promise<void> => {
  const { stage, screen, clock, stop, everyMs } = deps
  const failures: string[] = []
  const background = startBackground(stage, clock, text => void failures.push(text))
  await stage.look()
  const first = figuresOf(stage.status())
  let before = first
  let at = clock.now()
  for (let count = 0; await waited(everyMs, stop); count++) {
    if (count % headerEvery === 0) screen.heading(figuresHeader)
    await stage.look()
    const now = figuresOf(stage.status())
    const seconds = (clock.now() - at) / 1000
    const failed = now.failed - first.failed
    const time = new Date().toTimeString().slice(0, 8)
    screen.line(figuresLine(time, before, now, failed, seconds))
    tellFailures(screen, failures.splice(0))
    before = now
    at = clock.now()
  }
  await background.stop()
  tellFailures(screen, failures)
  const { asked, failed } = background.outcome
  screen.line()
  screen.line(`The demo sent ${asked} requests meanwhile; ${failed || 'none'} failed.`)
}

/** One line for all of a second: a Service taken out of the manifest fails each time. */
const tellFailures = (screen: Screen, failures: readonly string[]): void => {
  const [first, ...others] = failures
  if (first === undefined) return
  screen.warn(others.length === 0 ? first : `${first} (and ${others.length} more)`)
}
