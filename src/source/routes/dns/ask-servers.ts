import type { AddressPort } from '../../../util/ip.ts'
import { messageOf } from '../../../util/usher-error.ts'
import { askServer, serverText } from './ask-server.ts'
import { plainName, type Answer } from './dns-message.ts'
import type { DnsRecord, Question, QuestionType } from './dns-record.ts'

export type RecordOf<T extends QuestionType> = Extract<DnsRecord, { type: T }>

/** What a name has of one type. */
export interface Records<T extends QuestionType> {
  readonly records: readonly RecordOf<T>[]
  /** In seconds, the shortest of all that led there. */
  readonly ttl: number
  /** Why there are none; '' when there are. */
  readonly none: string
}

/** How often each server is asked: a datagram may be lost. */
const rounds = 2

/** As many as there can be for good reasons, and then some. */
const mostAliases = 16

const codes: Readonly<Record<number, string>> = {
  1: 'it does not understand the question (FORMERR)',
  2: 'it failed (SERVFAIL)',
  4: 'it does not do that (NOTIMP)',
  5: 'it refused (REFUSED)',
}
const noSuchName = 3

/**
 * Asks one server after the other until one knows. Rejects with what was wrong with each
 * when none does; that a name or type is not there is known.
 */
export const askServers = async <T extends QuestionType>(
  servers: readonly AddressPort[],
  question: Question & { readonly type: T },
  signal: AbortSignal,
): Promise<Records<T>> => {
  const faults = new Map<string, string>()
  for (let round = 0; round < rounds; round += 1)
    for (const server of servers) {
      try {
        return recordsIn(await askServer(server, question, signal), question)
      } catch (error) {
        if (signal.aborted) throw error
        faults.set(serverText(server), messageOf(error))
      }
    }
  const told = [...faults].map(([server, fault]) => `${server}: ${fault}`)
  throw new Error(told.join('; '))
}

const recordsIn = <T extends QuestionType>(
  { rcode, records }: Answer,
  { name, type }: Question & { readonly type: T },
): Records<T> => {
  if (rcode === noSuchName)
    return { records: [], ttl: 0, none: 'there is no such name (NXDOMAIN)' }
  if (rcode !== 0) throw new Error(codes[rcode] ?? `it says error ${rcode}`)
  const isOfType = (record: DnsRecord): record is RecordOf<T> => record.type === type
  let ttl = Infinity
  let owner = plainName(name)
  for (let aliases = 0; aliases <= mostAliases; aliases += 1) {
    const own = records.filter(record => record.name === owner)
    const found = own.filter(isOfType)
    const alias = own.find(record => record.type === 'CNAME')
    ttl = Math.min(ttl, ...(found.length > 0 ? found : own).map(record => record.ttl))
    if (found.length > 0) return { records: found, ttl, none: '' }
    if (alias === undefined)
      return { records: [], ttl, none: `the name has no ${type} records` }
    owner = alias.target
  }
  throw new Error(
    `its answer goes through more than ${mostAliases} CNAMEs, maybe in a circle`,
  )
}
