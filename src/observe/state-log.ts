import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Bind } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'
import type { Log, LogFields } from './log.ts'

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
  #said = new Map<string, string>()

  /** `isFailing`: what cannot be listened on now, of which the log has an error already. */
  constructor(
    log: Log,
    isFailing: (servicePort: string, bind: Bind) => boolean = () => false,
  ) {
    this.#log = log
    this.#isFailing = isFailing
  }

  say(placements: readonly Placement[]): void {
    const now = new Map<string, string>()
    const news: News[] = []
    for (const { servicePort, listenerId, vips } of placements) {
      const { name, protocol } = servicePort
      for (const placement of vips) {
        // It is news when it works.
        if (placement.binds.some(bind => this.#isFailing(name, bind))) continue
        const { kind, address, port } = placement.vip
        const vip = joinHostPort(address, port)
        const key = `${listenerId} ${kind} ${vip}`
        const text = describe(placement)
        now.set(key, text)
        if (this.#said.get(key) === text) continue
        news.push({ fields: { servicePort: name, protocol, kind, vip }, text, placement })
      }
    }
    this.#said = now
    this.#tell(news)
  }

  #tell(news: readonly News[]): void {
    const many = news.length > mostLines
    for (const { fields, text, placement } of news) {
      const level = isCaptured(placement) ? 'info' : 'warn'
      this.#log[many ? 'debug' : level](fields, text)
    }
    if (many) this.#summarize(news)
  }

  #summarize(news: readonly News[]): void {
    const count = { local: 0, none: 0, 'not captured': 0 }
    for (const { placement } of news) count[placement.capture] += 1
    this.#log.info(
      { onVip: count.local, onProxyPort: count.none, notCaptured: count['not captured'] },
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

const describe = ({ capture, binds, reason }: VipPlacement): string => {
  if (capture === 'not captured') return `VIP not captured: ${reason}`
  if (capture === 'local') return 'VIP is placed on its own address'
  const proxyPort = binds
    .map(({ address, port }) => joinHostPort(address, port))
    .join(', ')
  return `VIP is placed on proxy port ${proxyPort}`
}

/** Says each problem once, and when all of them are gone. */
export class ProblemLog {
  readonly #log: Log
  #said = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  say(problems: readonly Problem[]): void {
    const now = new Set<string>()
    let news = 0
    for (const { object, field, message } of problems) {
      const key = `${object} ${field} ${message}`
      now.add(key)
      if (this.#said.has(key)) continue
      news += 1
      this.#log[news > mostLines ? 'debug' : 'warn']({ object, field }, message)
    }
    if (news > mostLines)
      this.#log.warn(
        { count: news - mostLines },
        'more objects have problems; the status names them all',
      )
    if (now.size === 0 && this.#said.size > 0) {
      this.#log.info({}, 'all objects are in order again')
    }
    this.#said = now
  }
}
