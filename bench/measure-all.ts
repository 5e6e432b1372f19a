import { type Clock, systemClock } from '../src/util/clock.ts'
import type { Header } from './header.ts'
import { expectedSeconds, measureScenario, messageOf, type Plan } from './measure.ts'
import type { LeftOut, RunRecord, ScenarioRecord, TargetRecord } from './record/record.ts'
import { reportScenario } from './report/terminal.ts'
import type { Stage } from './stage.ts'
import type { Target } from './targets/target.ts'

/** Where progress is written; `process.stderr` satisfies it. */
interface Screen {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** One line that says what is being measured and how long the rest will take. */
export class Progress {
  readonly #screen: Screen
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #expected: number
  #done = 0

  /** @param wholeSeconds - a first guess, corrected by how it goes */
  constructor(wholeSeconds: number, screen: Screen, clock: Clock) {
    this.#screen = screen
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#expected = wholeSeconds
  }

  /** Says what begins now, and books what it is expected to take. */
  step(what: string, seconds: number): void {
    const text = `${what}, ${timeText(this.#secondsLeft())} left`
    this.#done += seconds
    this.#screen.write(this.#screen.isTTY ? `\r\u001B[K${text}` : `${text}\n`)
  }

  clear(): void {
    if (this.#screen.isTTY) this.#screen.write('\r\u001B[K')
  }

  #secondsLeft(): number {
    const left = Math.max(0, this.#expected - this.#done)
    const elapsed = (this.#clock.now() - this.#startedAt) / 1000
    // A few steps are needed before the guess can be corrected by what they took.
    return this.#done < 5 ? left : left * (elapsed / this.#done)
  }
}

/** `45 s`, `2 min 05 s`. */
export const timeText = (seconds: number): string => {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`
}

interface Measurement {
  readonly plan: Plan
  readonly stage: Stage
  readonly header: Header
  /** What was left out before anything was started. */
  readonly leftOut: readonly LeftOut[]
  readonly signal: AbortSignal
  readonly out: (text: string) => void
}

/** A guess; those with rules to write take longer, those of one process are quicker. */
const startSeconds = 1.5

/**
 * Measures the plan, prints each scenario as it ends, and gives what was found; when
 * interrupted, what there is.
 */
export const measureAll = async (measurement: Measurement): Promise<RunRecord> => {
  const { stage, signal, header, out } = measurement
  const startedAt = systemClock.now()
  const expected =
    expectedSeconds(measurement.plan) + startSeconds * measurement.plan.targets.length
  const progress = new Progress(expected, process.stderr, systemClock)
  const { plan, described, notStarted } = await startTargets(measurement, progress)
  if (plan.targets.length === 0 && !signal.aborted)
    throw new Error(`no target came to serve: ${messageOfAll(notStarted)}`)
  const scenarios: ScenarioRecord[] = []
  const soFar = (): RunRecord => ({
    ...header,
    seconds: (systemClock.now() - startedAt) / 1000,
    complete: !signal.aborted,
    targets: described,
    leftOut: [...measurement.leftOut, ...notStarted],
    yardsticks: yardsticksOf(plan.targets),
    scenarios,
  })
  for (const scenario of plan.scenarios) {
    if (signal.aborted) break
    const found = await measureScenario(scenario, { plan, stage, progress, signal })
    scenarios.push(found)
    progress.clear()
    out(`${reportScenario(found, soFar()).join('\n')}\n\n`)
  }
  progress.clear()
  const complaints = stage.complaints()
  for (const { name, why } of complaints) out(`MIND: ${name} ${why}\n`)
  const record = soFar()
  return { ...record, leftOut: [...record.leftOut, ...complaints.filter(isDeath)] }
}

const isDeath = ({ why }: LeftOut): boolean => why.startsWith('ended')

export const messageOfAll = (leftOut: readonly LeftOut[]): string =>
  leftOut.map(({ name, why }) => `${name}: ${why}`).join('; ')

/** What does not start is left out of everything, or it would cost its time each time. */
const startTargets = async ({ plan, stage, signal }: Measurement, progress: Progress) => {
  const targets: Target[] = []
  const described: TargetRecord[] = []
  const notStarted: LeftOut[] = []
  for (const target of plan.targets) {
    if (signal.aborted) break
    const { name, title, kind } = target
    progress.step(`starting ${name}`, startSeconds)
    try {
      const { command, config } = await stage.start(target)
      described.push({ name, title, kind, command, config })
      targets.push(target)
    } catch (error) {
      if (!signal.aborted) notStarted.push({ name, why: messageOf(error), failed: true })
    }
  }
  return { plan: { ...plan, targets }, described, notStarted }
}

/** What the others are compared with: the bare path, the floor, the peers, a baseline. */
const yardsticksOf = (targets: readonly Target[]): readonly string[] =>
  targets
    .filter(({ kind, name }) => kind !== 'usher' || name === 'baseline')
    .map(({ name }) => name)
