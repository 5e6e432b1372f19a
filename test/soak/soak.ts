import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { Random } from '../fault-run/random.ts'
import {
  type RelayModule,
  type RelayProcess,
  relayProcess,
} from '../support/relay-process.ts'
import type { RelayUsage } from '../support/relay-process.ts'
import { makeVisit, type Outcome } from './client.ts'
import type { Guestbook } from './server.ts'
import { type Door, setStage, type Stage } from './stage.ts'
import { udpVisit } from './udp-echo.ts'
import { type Descriptors, openDescriptors, untilQuiet } from './vital-signs.ts'
import { randomVisit } from './visit.ts'

export interface SoakPlan {
  readonly relay: RelayModule
  readonly seed: number
  readonly ms: number
  /** The most bytes a connection carries one way. */
  readonly mostBytes: number
  readonly say: (line: string) => void
}

export interface QuietUsage extends RelayUsage {
  readonly open: Descriptors
}

/** What came of it. */
export interface SoakReport {
  readonly visits: number
  readonly udpVisits: number
  readonly changes: number
  /** Programs that were started by the process of the relay. */
  readonly spawns: number
  /** Workers that died and were replaced. */
  readonly kills: number
  /** Visits to what was being taken away just then, or while a worker died. */
  readonly explained: number
  readonly datagramsLost: number
  /** Lost or changed bytes, and connections that got stuck. */
  readonly wrong: readonly string[]
  /** Visits that failed though nothing was in their way. */
  readonly failed: readonly string[]
  /** When it was warm, and at the end; both without traffic. */
  readonly before: QuietUsage
  readonly after: QuietUsage
}

const tcpVisitors = 10
const udpVisitors = 3
/** Flows end soon, so that it can be seen that nothing is left of them. */
const limits = { udpTimeout: 1000, udpReplyTimeout: 1000 }
const progressMs = 10_000
const mostTold = 20

/** Traffic and changes at random for `ms`, with a quiet moment after a fifth of it. */
export const soak = async (
  t: Pick<Test, 'teardown'>,
  plan: SoakPlan,
): Promise<SoakReport> => {
  const relay = await relayProcess(t as Test, plan.relay, { limits })
  const book: Guestbook = new Map()
  const stage = await setStage(t, new Random(plan.seed), book)
  await relay.listen(...stage.specs())
  const course = new Course(plan, relay, stage, book)
  await course.run(plan.ms / 5)
  const before = await quietUsage(relay, stage)
  plan.say(`warm: ${usageText(before)}`)
  await course.run((plan.ms * 4) / 5)
  const after = await quietUsage(relay, stage)
  plan.say(`at the end: ${usageText(after)}`)
  return { ...course.found, before, after }
}

const usageText = ({ open, rss, held }: QuietUsage): string =>
  `${open.others} descriptors and ${open.pipes} ends of pipes, ${Math.round(rss / 1e6)} MB resident, ${Math.round(held / 1e6)} MB held`

/** Without a connection or flow, behind the same doors each time. */
const quietUsage = async (relay: RelayProcess, stage: Stage): Promise<QuietUsage> => {
  stage.calm()
  await relay.listen(...stage.specs())
  await untilQuiet(relay, 60_000)
  return { ...(await relay.usage()), open: await stillDescriptors(relay.pid) }
}

/** A thread that has just been started opens its own. */
const stillDescriptors = async (pid: number): Promise<Descriptors> => {
  let before: Descriptors
  let now = openDescriptors(pid)
  do {
    before = now
    await sleep(1000)
    now = openDescriptors(pid)
  } while (before.others !== now.others)
  return now
}

class Course {
  readonly #plan: SoakPlan
  readonly #relay: RelayProcess
  readonly #stage: Stage
  readonly #book: Guestbook
  readonly #random: Random
  readonly #wrong: string[] = []
  readonly #failed: string[] = []
  #visits = 0
  #udpVisits = 0
  #changes = 0
  #spawns = 0
  #kills = 0
  /** While a worker dies some connections are reset, of whichever listener. */
  #isDying = false
  #explained = 0
  #datagramsLost = 0
  #nextSeed = 1
  #end = 0

  constructor(plan: SoakPlan, relay: RelayProcess, stage: Stage, book: Guestbook) {
    this.#plan = plan
    this.#relay = relay
    this.#stage = stage
    this.#book = book
    this.#random = new Random(plan.seed + 1)
  }

  get found(): Omit<SoakReport, 'before' | 'after'> {
    return {
      visits: this.#visits,
      udpVisits: this.#udpVisits,
      changes: this.#changes,
      spawns: this.#spawns,
      kills: this.#kills,
      explained: this.#explained,
      datagramsLost: this.#datagramsLost,
      wrong: this.#wrong,
      failed: this.#failed,
    }
  }

  async run(ms: number): Promise<void> {
    this.#end = performance.now() + ms
    const timer = setInterval(() => this.#progress(), progressMs)
    const visitors = [
      ...Array.from({ length: tcpVisitors }, () => this.#visit('TCP')),
      ...Array.from({ length: udpVisitors }, () => this.#visit('UDP')),
    ]
    try {
      const hardships = [this.#keepChanging(), this.#keepSpawning(), this.#keepKilling()]
      await Promise.all([...hardships, ...visitors])
    } finally {
      clearInterval(timer)
    }
  }

  async #visit(protocol: Door['protocol']): Promise<void> {
    const random = new Random(this.#plan.seed + (this.#nextSeed += 2))
    const doors = this.#stage.doors.filter(door => door.protocol === protocol)
    while (performance.now() < this.#end) {
      const door = random.pick(doors)
      const { turns, isOpen, isSettled } = door
      const kills = this.#isDying ? -1 : this.#kills
      const outcome =
        protocol === 'TCP'
          ? await this.#connect(random, door)
          : await this.#exchange(random, door)
      const isReset = this.#isDying || kills !== this.#kills
      const isClosed = !isOpen || !isSettled || turns !== door.turns
      this.#judge(door, outcome, isReset || isClosed)
      // A port that nobody has answers at once, and would be all that is tried.
      if (outcome.verdict !== 'right') await sleep(20)
    }
  }

  #connect(random: Random, door: Door): Promise<Outcome> {
    this.#visits += 1
    const visit = randomVisit(random, (this.#nextSeed += 2), this.#plan.mostBytes)
    return makeVisit(visit, door.bind, this.#book)
  }

  async #exchange(random: Random, door: Door): Promise<Outcome> {
    this.#udpVisits += 1
    const { lost, ...outcome } = await udpVisit(random, door.bind)
    this.#datagramsLost += lost
    return outcome
  }

  #judge(door: Door, { verdict, why }: Outcome, isExplained: boolean): void {
    if (verdict === 'right') return
    const text = `${door.protocol} ${door.bind.port}: ${why}`
    if (verdict === 'wrong') this.#tell(this.#wrong, `WRONG ${text}`)
    else if (isExplained) this.#explained += 1
    else this.#tell(this.#failed, `failed ${text}`)
  }

  #tell(list: string[], text: string): void {
    list.push(text)
    if (list.length <= mostTold) this.#plan.say(text)
  }

  async #keepChanging(): Promise<void> {
    while (performance.now() < this.#end) {
      await sleep(this.#random.between(20, 400))
      const door = this.#stage.change()
      this.#changes += 1
      await this.#relay.listen(...this.#stage.specs())
      door.isSettled = true
    }
  }

  /** In storms, as when rules are written. */
  async #keepSpawning(): Promise<void> {
    while (performance.now() < this.#end) {
      for (let i = 0; i < 10; i += 1) await this.#relay.spawn()
      this.#spawns += 10
      await sleep(this.#random.between(20, 200))
    }
  }

  /** Seldom enough that most connections live through it. */
  async #keepKilling(): Promise<void> {
    while (performance.now() < this.#end) {
      await sleep(this.#random.between(1000, 4000))
      this.#isDying = true
      const hasDied = await this.#relay.killWorker(this.#random.next())
      this.#isDying = false
      if (!hasDied) return
      this.#kills += 1
    }
  }

  #progress(): void {
    const left = Math.round((this.#end - performance.now()) / 1000)
    const { visits, udpVisits, changes, explained, wrong, failed } = this.found
    this.#plan.say(
      `${visits} connections, ${udpVisits} flows, ${changes} changes, ${explained} met a closed door, ` +
        `${failed.length} failed, ${wrong.length} wrong; ${left} s to the next quiet moment`,
    )
  }
}
