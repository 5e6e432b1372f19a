import type { StatusDocument } from '../observe/status.ts'

/** What one line of live figures is made of, summed over all ServicePorts. */
interface Figures {
  /** TCP connections accepted since Usher started; the demo makes one for each request. */
  readonly accepted: number
  /** TCP connections and UDP flows open now. */
  readonly active: number
  readonly retries: number
  readonly failed: number
  /** UDP datagrams in both directions. */
  readonly datagrams: number
}

export const figuresOf = ({ servicePorts }: StatusDocument): Figures => {
  const sum = (of: (one: (typeof servicePorts)[number]) => number): number =>
    servicePorts.reduce((total, one) => total + of(one), 0)
  return {
    accepted: sum(one => (one.protocol === 'TCP' ? one.accepted : 0)),
    active: sum(one => one.active),
    retries: sum(one => one.retries),
    failed: sum(one => one.failed),
    datagrams: sum(one => one.datagrams),
  }
}

const columns = ['time    ', 'requests/s', 'active', 'retries/s', 'datagrams/s', 'failed']

export const figuresHeader = columns.join('  ')

/**
 * One line: rates over the `seconds` from `before` to `now`; `failed` is the total since
 * the figures began, so that a single failure stays in sight.
 */
export const figuresLine = (
  time: string,
  before: Figures,
  now: Figures,
  failed: number,
  seconds: number,
): string => {
  const rate = (of: 'accepted' | 'retries' | 'datagrams'): string =>
    String(Math.round(Math.max(0, now[of] - before[of]) / seconds))
  const cells = [
    time,
    rate('accepted'),
    String(now.active),
    rate('retries'),
    rate('datagrams'),
    String(failed),
  ]
  return cells.map((cell, i) => cell.padStart(columns[i]?.length ?? 0)).join('  ')
}
