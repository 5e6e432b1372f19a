import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { HostName } from '../../support/net/addresses.ts'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import { Random } from '../../fault-run/random.ts'
import { families, objectsOf, protocols } from './objects.ts'
import { fault } from './oracle.ts'
import type { Cell } from './oracle-terms.ts'
import { serviceNamed, services, type TestService } from './services.ts'
import { makeStage, type Stage } from './stage.ts'
import { vipOf, type VipName } from './vips.ts'
import { allNodePorts, isOfKernel, type Way } from './ways.ts'

/** What a run found: all lists are empty when all was well. */
export interface ChurnReport {
  readonly dials: number
  readonly actions: number
  /** Those that changed something of Usher's, and so are to be told of. */
  readonly harms: number
  /** Chains that Usher wrote or took out for a change of their Service before it looked: nothing to tell of was left. */
  readonly overwritten: number
  readonly changes: number
  /** The longest time in which this process itself did not get to run, milliseconds. */
  readonly stalledMs: number
  /** The longest time that a VIP was wrong, milliseconds. */
  readonly worstMs: number
  /** VIPs that were wrong for longer than `mostWrongMs`. */
  readonly wrong: readonly string[]
  /** Actions that neither log nor status told of. */
  readonly untold: readonly string[]
  readonly left: readonly string[]
}

const mostWrongMs = 5000
/** Between two dials of one cell, and for how long an answer is waited for: TCP hears of an ICMPv6 refusal with its second SYN. */
const pauseMs = 400
const patienceMs = 1500

/** A Service's backends and policy change; the others are as in the matrix. */
const churned = ['plain', 'external-local', 'for-outside', 'both-local'] as const
const judged: readonly string[] = [...churned, 'no-endpoints']
const dialled: readonly VipName[] = [
  'ClusterIP',
  'load-balancer IP',
  'node port, first address',
]

const clientOf = (vip: VipName): HostName => (vip === 'ClusterIP' ? 'pod-1' : 'outside')

/**
 * Services change all the time while another program flushes, deletes, adds native rules and takes
 * addresses away, at moments that `seed` repeats; clients dial all the while.
 */
export const foreignChurn = async (
  t: Test,
  way: Way,
  { ms, seed }: { readonly ms: number; readonly seed: number },
): Promise<ChurnReport> => {
  const stage = await makeStage(t, way)
  const usher = stage.start(...allNodePorts(way))
  await usher.ready()
  const run = new Run(stage, usher, way, new Random(seed))
  const end = Date.now() + ms
  await Promise.all([run.dial(end), run.change(end), run.disturb(end)])
  return run.report()
}

interface Judged {
  readonly cell: Cell
  wrongSince: number | undefined
  lastFault: string
  isTold: boolean
}

class Run {
  readonly #stage: Stage
  readonly #usher: NodeUsher
  readonly #way: Way
  readonly #random: Random
  readonly #cells: readonly Judged[]
  /** As they are wanted now, and since when. */
  readonly #wanted = new Map(
    services.map(service => [service.name, { service, since: 0 }]),
  )
  readonly #history: string[] = []
  readonly #wrong: string[] = []
  readonly #untold: string[] = []
  readonly #started = Date.now()
  #dials = 0
  #actions = 0
  #harms = 0
  #overwritten = 0
  readonly #stalls = monitorEventLoopDelay({ resolution: 10 })
  #changes = 0
  #worstMs = 0

  constructor(stage: Stage, usher: NodeUsher, way: Way, random: Random) {
    this.#stage = stage
    this.#usher = usher
    this.#way = way
    this.#random = random
    this.#cells = judged.flatMap(name =>
      dialled.flatMap(vip =>
        families.flatMap(family =>
          protocols.map(protocol => ({
            cell: {
              service: serviceNamed(name),
              vip,
              from: clientOf(vip),
              family,
              protocol,
            },
            wrongSince: undefined,
            lastFault: '',
            isTold: false,
          })),
        ),
      ),
    )
  }

  async dial(end: number): Promise<void> {
    this.#stalls.enable()
    await Promise.all(
      this.#cells.map(async (judgedCell, index) => {
        await sleep((index * pauseMs) / this.#cells.length)
        while (Date.now() < end) {
          await this.#dialOne(judgedCell)
          await sleep(pauseMs)
        }
      }),
    )
  }

  /** A client comes by a new port each time, so that no flow of before is in its way. */
  async #dialOne(one: Judged): Promise<void> {
    const startedAt = Date.now()
    const { service, since } = this.#wantedOf(one.cell.service.name)
    const cell = { ...one.cell, service }
    const { vip, family, protocol, from } = cell
    const to = { protocol, ...vipOf[vip](service, family) }
    this.#dials += 1
    const outcome = await this.#stage.agents[from].dial(to, patienceMs)
    // What was wanted has changed meanwhile: either may be right.
    if (this.#wantedOf(service.name).since !== since) return
    const found = fault(cell, this.#way.manner, outcome)
    if (found === undefined) {
      this.#right(one, startedAt)
      return
    }
    one.wrongSince = Math.max(one.wrongSince ?? startedAt, since)
    one.lastFault = found
    this.#judge(one, Date.now())
  }

  #right(one: Judged, now: number): void {
    if (one.wrongSince !== undefined)
      this.#worstMs = Math.max(this.#worstMs, now - one.wrongSince)
    one.wrongSince = undefined
    one.isTold = false
  }

  #judge(one: Judged, now: number): void {
    const { cell, wrongSince = now, lastFault } = one
    if (now - wrongSince <= mostWrongMs || one.isTold) return
    one.isTold = true
    const { service, vip, family, protocol, from } = cell
    const at = this.#at(wrongSince)
    this.#wrong.push(
      `${vip} of ${service.name} from ${from}, ${family} ${protocol}, since ${at}: ${lastFault}; after ${this.#history.slice(-4).join('; ')}`,
    )
  }

  async change(end: number): Promise<void> {
    while (Date.now() < end) {
      await sleep(this.#random.between(700, 1500))
      const name = this.#random.pick(churned)
      const plain = serviceNamed(name)
      const backends = this.#random.some(
        plain.backends,
        this.#random.between(0, plain.backends.length),
      )
      this.#changes += 1
      this.#wanted.set(name, { service: { ...plain, backends }, since: Date.now() })
      await this.#stage.manifests.write(
        ...objectsOf([...this.#wanted.values()].map(({ service }) => service)),
      )
    }
  }

  /** One action at a time, so that what is told can be told apart. */
  async disturb(end: number): Promise<void> {
    const { run } = this.#stage.net.node
    while (Date.now() < end - 2 * mostWrongMs) {
      await sleep(this.#random.between(1000, 5000))
      const action = this.#random.pick(actionsOf(this.#way))
      const before = this.#usher.records.length
      const had = await this.#problems()
      const what = await action(run, this.#random)
      if (what === '') continue
      this.#actions += 1
      this.#history.push(`${this.#at(Date.now())} ${what}`)
      if (isHarmless(action, this.#way)) continue
      this.#harms += 1
      const isTold =
        action === addNative
          ? (now: readonly string[]) => now.some(one => one.startsWith('iptables table'))
          : (now: readonly string[]) =>
              now.some(one => !had.includes(one)) || this.#logTells(before)
      if (await this.#isSoon(isTold)) continue
      if (await isOverwritten(run, what)) this.#overwritten += 1
      else this.#untold.push(this.#history.at(-1) ?? '')
    }
    await undoNative(run, this.#random)
    await sleep(Math.max(0, end - Date.now()))
  }

  async #isSoon(isTold: (problems: readonly string[]) => boolean): Promise<boolean> {
    const end = Date.now() + mostWrongMs + 1000
    while (Date.now() < end) {
      if (isTold(await this.#problems())) return true
      await sleep(200)
    }
    return false
  }

  async #problems(): Promise<readonly string[]> {
    const { problems } = await this.#usher.status()
    return problems.map(one => `${one.object} ${one.field}: ${one.message}`)
  }

  #logTells(from: number): boolean {
    const news = this.#usher.records.slice(from)
    return news.some(({ msg }) => msg.startsWith("another program changed Usher's "))
  }

  async report(): Promise<ChurnReport> {
    for (const one of this.#cells) this.#judge(one, Date.now())
    this.#usher.send('SIGTERM')
    await this.#usher.exit
    if (isOfKernel(this.#way)) await this.#stage.cleanUp()
    const { run } = this.#stage.net.node
    const lists = await Promise.all([
      run('nft', ['list', 'ruleset']),
      run('ip', ['address']),
      ...['-4', '-6'].map(family => run('ip', [family, 'route', 'show', 'table', 'all'])),
    ])
    const ours = /KUBE-|usher|kube-proxy|proto 117|169\.254\.77\.88|fd75:7368/
    return {
      dials: this.#dials,
      actions: this.#actions,
      harms: this.#harms,
      overwritten: this.#overwritten,
      changes: this.#changes,
      stalledMs: Math.round(this.#stalls.max / 1e6),
      worstMs: this.#worstMs,
      wrong: this.#wrong,
      untold: this.#untold,
      left: lists
        .join('\n')
        .split('\n')
        .filter(line => ours.test(line.replace(/link-netns \S+/, ''))),
    }
  }

  #wantedOf(name: string): { readonly service: TestService; readonly since: number } {
    return this.#wanted.get(name) ?? { service: serviceNamed(name), since: 0 }
  }

  #at(time: number): string {
    return `${((time - this.#started) / 1000).toFixed(1)} s`
  }
}

/** What it did; '' for nothing. */
type Action = (run: RunTool, random: Random) => Promise<string>

/** A tool that is told to delete what is not there fails: that is no action. */
const does =
  (...commands: readonly (readonly [string, ...string[]])[]): Action =>
  async run => {
    const done: string[] = []
    for (const [command, ...args] of commands)
      await run(command, args).then(
        () => done.push([command, ...args].join(' ')),
        () => {},
      )
    return done.join(', ')
  }

const native = 'usher-test-native'

/** Rules that iptables-nft can't read, as Tailscale, netbird and administrators add them. */
const addNative: Action = async (run, random) => {
  const family = random.pick(['ip', 'ip6'])
  const [table, chain] = random.pick([
    ['filter', 'INPUT'],
    ['filter', 'FORWARD'],
    ['nat', 'PREROUTING'],
    ['nat', 'POSTROUTING'],
  ] as const)
  const rule = ['ct', 'state', 'established', 'counter', 'accept', 'comment', native]
  return does(['nft', 'add', 'rule', family, table, chain, ...rule])(run, random)
}

const undoNative: Action = async run => {
  const text = await run('nft', ['-a', 'list', 'ruleset'])
  let [table, chain, count] = ['', '', 0]
  for (const line of text.split('\n')) {
    table = /^table (\S+ \S+) /.exec(line)?.[1] ?? table
    chain = /^\tchain (\S+) /.exec(line)?.[1] ?? chain
    const handle = line.includes(native) && /# handle (\d+)/.exec(line)?.[1]
    if (!handle) continue
    count += 1
    await run('nft', ['delete', 'rule', ...table.split(' '), chain, 'handle', handle])
  }
  return count === 0 ? '' : 'native rules removed'
}

/** A chain, map or set of Usher's own that is not empty, whichever it is. */
const flushOwn: Action = async (run, random) => {
  const text = await run('nft', ['list', 'ruleset'])
  const found: string[][] = []
  let table = ''
  for (const [part, line = ''] of text.matchAll(/^\t?(\w.*) \{\n(?:\t\t.*\n)*/gm)) {
    table = /^table (\S+ \S+)/.exec(line)?.[1] ?? table
    const [, kind = '', name = ''] = /^(chain|map|set) (\S+)/.exec(line) ?? []
    const isOurs = /usher|kube-proxy/.test(table) || name.startsWith('KUBE-')
    const isFull = kind === 'chain' ? hasRules : /^\t\telements/m
    if (isOurs && kind !== '' && isFull.test(part))
      found.push([kind, ...table.split(' '), name])
  }
  if (found.length === 0) return ''
  const args = ['flush', ...random.pick(found)]
  return does(['nft', ...args])(run, random)
}

const hasRules = /^\t\t(?!type |comment ")/m

/** Whether it was a chain of iptables', and has rules by now, or was taken out by Usher. */
const isOverwritten = async (run: RunTool, flush: string): Promise<boolean> => {
  const [, chain = ''] = /^nft flush (chain ip6? (?:nat|filter) \S+)$/.exec(flush) ?? []
  if (chain === '') return false
  const text = await run('nft', ['list', ...chain.split(' ')]).catch(() => undefined)
  return text === undefined || hasRules.test(text)
}

const flushLoopback: Action = does(
  ['ip', '-4', 'address', 'flush', 'dev', 'lo'],
  ['ip', '-6', 'address', 'flush', 'dev', 'lo'],
  ['ip', 'address', 'add', '127.0.0.1/8', 'dev', 'lo'],
  ['ip', 'address', 'add', '::1/128', 'dev', 'lo'],
)

const flushRoutes: Action = does(
  ['ip', '-4', 'route', 'flush', 'table', 'local', 'proto', '117'],
  ['ip', '-6', 'route', 'flush', 'table', 'local', 'proto', '117'],
)

const flushRules: Action = does(['nft', 'flush', 'ruleset'])

const flushNat: Action = does(
  ['iptables-nft', '-t', 'nat', '-F'],
  ['ip6tables-nft', '-t', 'nat', '-F'],
)

const writesIptables = ({ flags }: Way): boolean =>
  flags.some(flag => flag.endsWith('=iptables'))

/** What nothing of Usher's is touched by. */
const isHarmless = (action: Action, way: Way): boolean =>
  action === undoNative ||
  ((action === addNative || action === flushNat) && !writesIptables(way))

const actionsOf = ({ manner }: Way): readonly Action[] => {
  const byRules = [flushRules, flushOwn, flushOwn, addNative, undoNative]
  if (manner === 'iptables') return [...byRules, flushNat]
  if (manner === 'nftables') return byRules
  if (manner === 'rules') return [...byRules, flushNat, flushLoopback, flushRoutes]
  return [flushLoopback, flushRoutes]
}
