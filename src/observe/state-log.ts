import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Bind } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import type { Log, LogFields } from './log.ts'
import type { ClusterEvent } from '../source/kubernetes/event-recorder.ts'
import { firstFew } from '../util/printable.ts'
import type { Clock, Timer } from '../util/clock.ts'
import type { ChangeCount } from './sync-metrics.ts'

/** With more news than this in one sync there is one line with counts, the rest at debug. */
const mostLines = 50
/** Of what is only counted, so many are named. */
const mostNamed = 3

interface News {
  readonly fields: LogFields
  readonly text: string
  readonly placement: VipPlacement
}

/** Says which VIP is to be served how, once, and again when that changes. */
export class PlacementLog {
  readonly #log: Log
  readonly #isFailing: (servicePort: string, bind: Bind) => boolean
  #placements: readonly Placement[] = []
  /** By listener: what was logged of its VIPs, by kind and VIP. */
  readonly #reported = new Map<string, ReadonlyMap<string, string>>()
  /** Those with a VIP that is left out because it fails. */
  readonly #incomplete = new Map<string, Placement>()

  /** `isFailing`: what cannot be listened on now, of which the log has an error already. */
  constructor(
    log: Log,
    isFailing: (servicePort: string, bind: Bind) => boolean = () => false,
  ) {
    this.#log = log
    this.#isFailing = isFailing
  }

  /** Costs what changed: a Placement that is the same object is logged as before. */
  report(placements: readonly Placement[]): void {
    const { before, after } = listDiff(this.#placements, placements)
    this.#placements = placements
    const compared = new Map(after.map(placement => [placement.listenerId, placement]))
    for (const { listenerId } of before)
      if (!compared.has(listenerId)) this.#forget(listenerId)
    const news: News[] = []
    const incomplete = [...this.#incomplete.values()]
    for (const placement of incomplete) {
      if (!compared.has(placement.listenerId)) this.#compare(placement, news)
    }
    for (const placement of after) this.#compare(placement, news)
    this.#write(news)
  }

  #compare(placement: Placement, news: News[]): void {
    const { listenerId, servicePort } = placement
    const { name, protocol } = servicePort
    const before = this.#reported.get(listenerId)
    const reported = new Map<string, string>()
    this.#incomplete.delete(listenerId)
    for (const each of placement.vips) {
      // It is news when it works.
      if (each.binds.some(bind => this.#isFailing(name, bind))) {
        this.#incomplete.set(listenerId, placement)
        continue
      }
      const { kind, address, port } = each.vip
      const vip = joinHostPort(address, port)
      const key = `${kind} ${vip}`
      const text = describe(each)
      reported.set(key, text)
      if (before?.get(key) === text) continue
      const fields = { servicePort: name, protocol, kind, vip }
      news.push({ fields, text, placement: each })
    }
    this.#reported.set(listenerId, reported)
  }

  #forget(listenerId: string): void {
    this.#reported.delete(listenerId)
    this.#incomplete.delete(listenerId)
  }

  #write(news: readonly News[]): void {
    const many = news.length > mostLines
    for (const { fields, text, placement } of news) {
      const level = isCaptured(placement) ? 'info' : 'warn'
      this.#log[many ? 'debug' : level](fields, text)
    }
    if (many) this.#summarize(news)
  }

  #summarize(news: readonly News[]): void {
    const count = {
      local: 0,
      listen: 0,
      none: 0,
      nftables: 0,
      iptables: 0,
      kernel: 0,
      'not captured': 0,
    }
    for (const { placement } of news) count[placement.capture] += 1
    const { local, listen, none, nftables, iptables, kernel } = count
    this.#log.info(
      {
        onVip: local + listen,
        onProxyPort: none,
        byRules: nftables + iptables,
        ...(kernel > 0 && { byKernel: kernel }),
        notCaptured: count['not captured'],
      },
      'many VIPs were set up at once',
    )
    const missing = news.filter(({ placement }) => !isCaptured(placement))
    if (missing.length === 0) return
    const examples = missing.slice(0, mostNamed).map(({ fields, text }) => [fields, text])
    this.#log.warn(
      { notCaptured: missing.length, examples },
      'some VIPs are not captured; usher status lists them all',
    )
  }
}

const isCaptured = ({ capture }: VipPlacement): boolean => capture !== 'not captured'

const describe = ({ vip, capture, binds, reason }: VipPlacement): string => {
  if (capture === 'not captured') return `VIP not captured: ${reason}`
  // Whether there are endpoints, or clients are refused, is no news of the VIP's.
  if (capture === 'kernel') return 'VIP is handled by the kernel'
  if (capture === 'local' || capture === 'listen')
    return `${vip.kind === 'Route' ? 'route' : 'VIP'} is served at its own address`
  const proxyPort = binds
    .map(({ address, port }) => joinHostPort(address, port))
    .join(', ')
  if (capture === 'none') return `VIP is placed on proxy port ${proxyPort}`
  return `VIP is captured by ${capture}, proxy port ${proxyPort}`
}

/** Says each problem once, and when all of them are gone. */
export class ProblemLog {
  readonly #log: Log
  readonly #news = new ProblemNews()

  constructor(log: Log) {
    this.#log = log
  }

  report(problems: readonly Problem[]): void {
    const hadProblems = this.#news.hasProblems
    const news = this.#news.take(problems)
    for (const [i, { object, field, message }] of news.entries())
      this.#log[i < mostLines ? 'warn' : 'debug']({ object, field }, message)
    if (news.length > mostLines)
      this.#log.warn(
        { count: news.length - mostLines },
        'more objects have problems; usher status lists them all',
      )
    if (hadProblems && problems.length === 0)
      this.#log.info({}, 'all problems are resolved')
  }
}

/** Which of all problems have not been there before. */
class ProblemNews {
  #known: ReadonlySet<string> = new Set()

  get hasProblems(): boolean {
    return this.#known.size > 0
  }

  /** Those that were not among the problems of the last call. */
  take(problems: readonly Problem[]): readonly Problem[] {
    if (problems.length === 0 && !this.hasProblems) return []
    const before = this.#known
    const byKey = new Map(problems.map(problem => [keyOf(problem), problem]))
    this.#known = new Set(byKey.keys())
    return [...byKey].flatMap(([key, problem]) => (before.has(key) ? [] : [problem]))
  }
}

const keyOf = ({ object, field, message }: Problem): string =>
  `${object} ${field} ${message}`

/** Services that get an Event at once; of more there are only problems in the status. */
const mostAtOnce = 20

/** Tells the owners of Services which of their annotations have no effect, each once. */
export class AnnotationEvents {
  readonly #emit: (event: ClusterEvent) => void
  readonly #news = new ProblemNews()

  constructor(emit: (event: ClusterEvent) => void) {
    this.#emit = emit
  }

  /** To be called with all problems that there are now. */
  report(problems: readonly Problem[]): void {
    const news = this.#news.take(problems.filter(isOfAnnotations))
    const byObject = new Map<string, Problem[]>()
    for (const problem of news) {
      const found = byObject.get(problem.object) ?? []
      byObject.set(problem.object, [...found, problem])
    }
    for (const [object, found] of [...byObject].slice(0, mostAtOnce))
      this.#emit(eventOf(object, found))
  }
}

const service = /^Service ([^/]+)\/(.+)$/

const isOfAnnotations = ({ object, field }: Problem): boolean =>
  field.startsWith('metadata.annotations') && service.test(object)

const eventOf = (object: string, problems: readonly Problem[]): ClusterEvent => {
  const [, namespace = '', name = ''] = service.exec(object) ?? []
  return {
    type: 'Warning',
    reason: 'AnnotationWithoutEffect',
    action: 'Serve',
    message: firstFew(problems.map(({ field, message }) => `${field} ${message}`)),
    regarding: { kind: 'Service', namespace, name },
  }
}

/** A line at most every so many milliseconds. */
const everyMs = 10_000

/**
 * Says that changes of the source were applied, and how many: the first at once, and what
 * comes in the seconds after it as one line. A cluster at work changes 100 times a second.
 */
export class ChangeLog {
  readonly #log: Log
  readonly #clock: Clock
  #services = 0
  #endpoints = 0
  #syncs = 0
  #timer: Timer | undefined

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** A sync took in so many changes of Services, and of EndpointSlices. */
  taken({ services, endpoints }: ChangeCount): void {
    if (services + endpoints === 0) return
    this.#log.debug(
      { serviceChanges: services, endpointChanges: endpoints },
      'one sync applied changes',
    )
    this.#services += services
    this.#endpoints += endpoints
    this.#syncs += 1
    if (this.#timer === undefined) this.#writeAndWait()
  }

  /** Logs what is still held back; the timer ends. */
  close(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#write()
  }

  #writeAndWait(): void {
    this.#write()
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = undefined
      if (this.#syncs > 0) this.#writeAndWait()
    }, everyMs)
    this.#timer.unref?.()
  }

  #write(): void {
    if (this.#syncs === 0) return
    this.#log.info(
      {
        serviceChanges: this.#services,
        endpointChanges: this.#endpoints,
        syncs: this.#syncs,
      },
      'configuration synced',
    )
    this.#services = 0
    this.#endpoints = 0
    this.#syncs = 0
  }
}
