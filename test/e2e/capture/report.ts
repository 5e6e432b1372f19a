import type { TriedCell } from './cells.ts'
import { vipNames } from './vips.ts'

/** One line that says what went wrong, for whom, and where. */
export const faultLines = (
  capture: string,
  tried: readonly TriedCell[],
): readonly string[] =>
  tried.flatMap(({ cell, fault }) => {
    const { service, vip, from, family, protocol } = cell
    return fault === undefined
      ? []
      : `${capture}: ${vip} of ${service.name} from ${from}, ${family} ${protocol}: ${fault}`
  })

type Heading = (cell: TriedCell['cell']) => string

/** Rows by kind of VIP and by Service, columns by client; `ok/total` in each field. */
export const resultTable = (
  capture: string,
  tried: readonly TriedCell[],
): readonly string[] => {
  const kinds = vipNames.filter(name => tried.some(({ cell }) => cell.vip === name))
  const policies = [...new Set(tried.map(({ cell }) => cell.service.name))]
  const columns = [...new Set(tried.map(({ cell }) => cell.from))]
  const row = (name: string, heading: Heading): string => {
    const ofRow = tried.filter(({ cell }) => heading(cell) === name)
    const fields = columns.map(from =>
      score(ofRow.filter(({ cell }) => cell.from === from)),
    )
    return line(name, fields)
  }
  return [
    line(capture, columns),
    ...kinds.map(kind => row(kind, cell => cell.vip)),
    ...policies.map(policy => row(policy, cell => cell.service.name)),
    line('all', [score(tried)]),
  ]
}

const line = (name: string, fields: readonly string[]): string =>
  [name.padEnd(26), ...fields.map(field => field.padStart(11))].join('')

const score = (tried: readonly TriedCell[]): string => {
  const good = tried.filter(({ fault }) => fault === undefined).length
  return tried.length === 0 ? '-' : `${good}/${tried.length}`
}

/** A datagram or its answer was lost, and the client's second brought it. */
export const lostDatagrams = (tried: readonly TriedCell[]): string => {
  const lost = tried.filter(
    ({ cell, outcome }) =>
      cell.protocol === 'UDP' && outcome.result === 'answer' && outcome.ms >= 1000,
  )
  return `UDP answers that took a second datagram: ${lost.length}`
}

/** By which addresses backends saw the clients, and these themselves: for each client. */
export const addressTable = (tried: readonly TriedCell[]): readonly string[] => {
  const answered = tried.filter(({ outcome }) => outcome.result === 'answer')
  const clients = [...new Set(answered.map(({ cell }) => cell.from))]
  return clients.map(client => {
    const own = answered.filter(({ cell }) => cell.from === client)
    const seen = new Set(own.map(({ outcome }) => outcome.seen))
    const used = new Set(own.map(({ outcome }) => outcome.own))
    return `${client} as ${words(used)} was seen by backends as ${words(seen)}`
  })
}

const mostAddresses = 6

const words = (addresses: ReadonlySet<string>): string => {
  const list = [...addresses].toSorted()
  const more = list.length - mostAddresses
  return [...list.slice(0, mostAddresses), ...(more > 0 ? [`${more} more`] : [])].join(
    ', ',
  )
}
