import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Problem } from '../model/snapshot.ts'
import { joinHostPort } from '../util/ip.ts'
import type { Log } from './log.ts'

/** Says which VIP is served how, once, and again when that changes. */
export class PlacementLog {
  readonly #log: Log
  #said = new Map<string, string>()

  constructor(log: Log) {
    this.#log = log
  }

  say(placements: readonly Placement[]): void {
    const now = new Map<string, string>()
    for (const { servicePort, listenerId, vips } of placements) {
      for (const placement of vips) {
        const vip = joinHostPort(placement.vip.address, placement.vip.port)
        const key = `${listenerId} ${placement.vip.kind} ${vip}`
        const text = describe(placement)
        now.set(key, text)
        if (this.#said.get(key) === text) continue
        const { name, protocol } = servicePort
        const { kind } = placement.vip
        const level = placement.capture === 'not captured' ? 'warn' : 'info'
        this.#log[level]({ servicePort: name, protocol, kind, vip }, text)
      }
    }
    this.#said = now
  }
}

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
    for (const { object, field, message } of problems) {
      const key = `${object} ${field} ${message}`
      now.add(key)
      if (!this.#said.has(key)) this.#log.warn({ object, field }, message)
    }
    if (now.size === 0 && this.#said.size > 0) {
      this.#log.info({}, 'all objects are in order again')
    }
    this.#said = now
  }
}
