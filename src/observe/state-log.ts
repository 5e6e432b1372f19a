import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Bind } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import type { Log, LogFields } from './log.ts'
import { ProblemNews } from './problem-news.ts'

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
  /** By listener: what was said of its VIPs, by kind and VIP. */
  readonly #said = new Map<string, ReadonlyMap<string, string>>()
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

  /** Costs what changed: a Placement that is the same object says the same. */
  say(placements: readonly Placement[]): void {
    const { before, after } = listDiff(this.#placements, placements)
    this.#placements = placements
    const looked = new Map(after.map(placement => [placement.listenerId, placement]))
    for (const { listenerId } of before)
      if (!looked.has(listenerId)) this.#forget(listenerId)
    const news: News[] = []
    const incomplete = [...this.#incomplete.values()]
    for (const placement of incomplete) {
      if (!looked.has(placement.listenerId)) this.#look(placement, news)
    }
    for (const placement of after) this.#look(placement, news)
    this.#write(news)
  }

  #look(placement: Placement, news: News[]): void {
    const { listenerId, servicePort } = placement
    const { name, protocol } = servicePort
    const before = this.#said.get(listenerId)
    const said = new Map<string, string>()
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
      said.set(key, text)
      if (before?.get(key) === text) continue
      const fields = { servicePort: name, protocol, kind, vip }
      news.push({ fields, text, placement: each })
    }
    this.#said.set(listenerId, said)
  }

  #forget(listenerId: string): void {
    this.#said.delete(listenerId)
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
      'many VIPs were placed at once',
    )
    const missing = news.filter(({ placement }) => !isCaptured(placement))
    if (missing.length === 0) return
    const examples = missing.slice(0, mostNamed).map(({ fields, text }) => [fields, text])
    this.#log.warn(
      { notCaptured: missing.length, examples },
      'some VIPs are not captured; the status names them all',
    )
  }
}

const isCaptured = ({ capture }: VipPlacement): boolean => capture !== 'not captured'

const describe = ({ vip, capture, binds, reason }: VipPlacement): string => {
  if (capture === 'not captured') return `VIP not captured: ${reason}`
  // Whether there are endpoints, or clients are refused, is no news of the VIP's.
  if (capture === 'kernel') return 'VIP is handled by the kernel'
  if (capture === 'local' || capture === 'listen')
    return `${vip.kind === 'Route' ? 'route' : 'VIP'} is placed on its own address`
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

  say(problems: readonly Problem[]): void {
    const hadProblems = this.#news.hasProblems
    const news = this.#news.take(problems)
    for (const [i, { object, field, message }] of news.entries())
      this.#log[i < mostLines ? 'warn' : 'debug']({ object, field }, message)
    if (news.length > mostLines)
      this.#log.warn(
        { count: news.length - mostLines },
        'more objects have problems; the status names them all',
      )
    if (hadProblems && problems.length === 0)
      this.#log.info({}, 'all objects are in order again')
  }
}
