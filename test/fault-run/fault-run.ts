import { setTimeout as sleep } from 'node:timers/promises'
import { ApiServer } from '../support/api-server/server.ts'
import { startBackends } from './backends.ts'
import { change, settle } from './changes.ts'
import { Cluster, nodeName } from './cluster.ts'
import { Bystanders } from './doors.ts'
import { ProxyProcess } from './proxy-process.ts'
import { type Quiet, quietMoment } from './quiet.ts'
import { Random } from './random.ts'
import { type Report, Tally } from './report.ts'
import { VitalsWatch } from './vitals.ts'
import {
  blow,
  clearSky,
  cutAll,
  type Gust,
  type Mood,
  restorePlain,
  type Sky,
} from './weather.ts'

export interface FaultRunOptions {
  readonly seed: number
  /** When this time is over the last round has begun. */
  readonly ms: number
  readonly pace: Pace
  /** Is told each action as it is done. */
  readonly say?: (line: string) => void
}

/** How a round goes. Milliseconds, and least and most of what is drawn. */
export interface Pace {
  readonly steps: readonly [number, number]
  readonly pauseMs: readonly [number, number]
  /** Rounds after which the proxy must get over all by itself, or is told to reload. */
  readonly natural: (round: number) => boolean
  readonly mood: (round: number) => Mood
  /**
   * What surely happens besides: all watches are cut at the start, or at the end a backup is
   * restored as it was; `any`: the latter now and then.
   */
  readonly special: (round: number) => 'cut' | 'swap' | 'any' | 'none'
  readonly naturalBoundMs: number
  readonly reloadBoundMs: number
}

/** More than these complaints are not collected. */
const mostComplaints = 20

/**
 * Runs Usher against an API server that goes wrong in all ways while its objects change
 * all the time, and looks at each quiet moment whether it serves what the server holds.
 * Rejects with all that was wrong, and the actions that led to it.
 */
export const faultRun = async (options: FaultRunOptions): Promise<Report> => {
  const closeBackends = await startBackends()
  const server = await ApiServer.start()
  const run = new FaultRun(options, server)
  try {
    return await run.run()
  } finally {
    await run.close()
    server.close()
    closeBackends()
  }
}

class FaultRun {
  readonly #options: FaultRunOptions
  readonly #random: Random
  readonly #cluster: Cluster
  readonly #proxy: ProxyProcess
  readonly #sky: Sky
  readonly #tally = new Tally()
  readonly #actions: string[] = []
  readonly #complaints: string[] = []
  readonly #startedAt = performance.now()
  #bystanders: Bystanders | undefined
  #vitals: VitalsWatch | undefined

  constructor(options: FaultRunOptions, server: ApiServer) {
    this.#options = options
    this.#random = new Random(options.seed)
    this.#cluster = new Cluster(server)
    settle(this.#cluster, this.#random)
    this.#proxy = new ProxyProcess(server.kubeconfig({ user: 'token-file' }), nodeName)
    this.#sky = {
      server,
      backup: server.backup(),
      away: false,
      reload: () => this.#reload(),
    }
  }

  async run(): Promise<Report> {
    const wrong = (complaint: string) => this.#complain(complaint)
    await this.#proxy.serving()
    this.#vitals = new VitalsWatch(this.#proxy, wrong)
    this.#bystanders = new Bystanders(wrong)
    try {
      await this.#quiet('start', this.#options.pace.naturalBoundMs)
      for (let round = 0; this.#elapsed < this.#options.ms; round += 1)
        await this.#round(round)
    } catch (error) {
      this.#complain(error instanceof Error ? error.message : String(error))
    }
    await this.#bystanders.end()
    const vitals = await this.#vitals.end()
    if (this.#complaints.length > 0) throw new Error(this.#story())
    return this.#tally.report({
      seed: this.#options.seed,
      ms: this.#elapsed,
      requests: this.#sky.server.requests,
      dials: this.#bystanders.dials,
      logLines: this.#proxy.said,
      ...vitals,
    })
  }

  async close(): Promise<void> {
    await this.#proxy.end()
  }

  get #elapsed(): number {
    return performance.now() - this.#startedAt
  }

  /** Some changes and faults, and then quiet. */
  async #round(round: number): Promise<void> {
    const { pace } = this.#options
    const random = this.#random
    const mood = pace.mood(round)
    const natural = pace.natural(round)
    const special = pace.special(round)
    if (special === 'cut') this.#blown(cutAll(this.#sky, random))
    for (let left = random.between(...pace.steps); left > 0; left -= 1) {
      for (let changes = random.between(1, 4); changes > 0; changes -= 1) this.#change()
      if (mood === 'mild' || random.chance(0.6))
        this.#blown(await blow(this.#sky, random, mood))
      await sleep(random.between(...pace.pauseMs))
      if (this.#complaints.length > 0) throw new Error('it went wrong before the quiet')
    }
    const from = this.#sky.server.requests.all.length
    const restores = special === 'swap' || (special === 'any' && random.chance(0.3))
    const swapped = !this.#sky.away && restores
    await clearSky(this.#sky)
    if (swapped) this.#blown(restorePlain(this.#sky))
    if (!natural) this.#reload()
    const bound = natural ? pace.naturalBoundMs : pace.reloadBoundMs
    const mustListFrom = swapped ? from : undefined
    await this.#quiet(natural ? 'by itself' : 'reloaded', bound, mustListFrom)
  }

  async #quiet(kind: string, boundMs: number, mustListFrom?: number): Promise<void> {
    this.#say(`quiet (${kind}), at most ${boundMs} ms`)
    const quiet: Quiet = await quietMoment({
      cluster: this.#cluster,
      proxy: this.#proxy,
      boundMs,
      ...(mustListFrom !== undefined && { mustListFrom }),
    })
    this.#say(`right after ${Math.round(quiet.ms)} ms`)
    this.#tally.quiet(kind, quiet)
    this.#bystanders?.watch(quiet.doors)
  }

  #change(): void {
    const { what, service } = change(this.#cluster, this.#random)
    this.#bystanders?.leave(service)
    this.#tally.changed(what)
    this.#say(`${service || 'node'}: ${what}`)
  }

  #blown({ kind, more, sweeping = false }: Gust): void {
    if (sweeping) this.#bystanders?.leave('')
    this.#tally.blown(kind)
    this.#say(`FAULT ${kind}: ${more}`)
  }

  #reload(): void {
    this.#tally.reloads += 1
    this.#proxy.reload()
  }

  #say(what: string): void {
    const line = `${(this.#elapsed / 1000).toFixed(2).padStart(7)} ${what}`
    this.#actions.push(line)
    if (this.#actions.length > 3000) this.#actions.shift()
    this.#options.say?.(line)
  }

  #complain(complaint: string): void {
    if (this.#complaints.length >= mostComplaints) return
    this.#complaints.push(complaint)
    this.#say(`WRONG: ${complaint}`)
  }

  #story(): string {
    return [
      `seed ${this.#options.seed}: wrong:`,
      ...this.#complaints,
      'actions:',
      ...this.#actions.slice(-150),
      'log:',
      ...this.#proxy.lines.slice(-60),
    ].join('\n')
  }
}
