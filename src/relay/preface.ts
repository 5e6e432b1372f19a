import type { TrafficOptions, ServerNamePool } from '../model/traffic.ts'
import { type AddressRanges, isAmong } from '../util/address-ranges.ts'
import { type ProxiedClient, readProxyHeader } from '../util/read-proxy-header.ts'
import { show } from '../util/printable.ts'
import { type ClientHello, mostRecordBytes, readClientHello } from './client-hello.ts'
import { answersTo, sslRequest, takesTls } from './postgres.ts'

/*
 * What is read of a client before an endpoint is chosen for it: who it is, by the header of a proxy
 * before Usher, and which server it is for, by its ClientHello.
 */

/** A client has so long for all of it. */
export const prefaceMs = 5000

/** More is never looked at. */
export const mostPrefaceBytes = 4096 + mostRecordBytes

export interface Preface {
  /** Bytes of the header, and of what was answered: they are not for the endpoint. */
  readonly headerBytes: number
  /** Who the client is, and where it has dialled; undefined: as its socket says. */
  readonly addresses: ProxiedClient['addresses']
  /** Of `ServerNameRules.pools`; undefined: none, or it was not asked for. */
  readonly pool: number | undefined
  /** A client of PostgreSQL that was told that there is TLS: the endpoint has to be asked for it. */
  readonly asksTls: boolean
  /** Why there are no endpoints for such a client, and will be none; else ''. */
  readonly refusal: string
}

/** What clients of a listener say first. */
export class PrefaceRules {
  readonly #proxies: AddressRanges | undefined
  readonly #isForAll: boolean
  readonly #names: ServerNames | undefined

  constructor({ acceptProxy, serverNames }: TrafficOptions) {
    this.#proxies = acceptProxy
    this.#names = serverNames && new ServerNames(serverNames.pools)
    this.#isForAll = serverNames?.others !== undefined
  }

  /** Whether a connection from this address, in words, begins with a header. */
  expectsHeader(words: ArrayLike<number>): boolean {
    return this.#proxies !== undefined && isAmong(this.#proxies, words)
  }

  /** Whether anything is read of clients without a header. */
  get readsHello(): boolean {
    return this.#names !== undefined
  }

  /**
   * Undefined while more is needed; a text says what is wrong with it. `answer` is called with all that
   * the client is to be answered so far, a byte for each request.
   */
  read(
    bytes: Buffer,
    hasHeader: boolean,
    answer: (answers: string) => void,
  ): Preface | string | undefined {
    const header = hasHeader ? readProxyHeader(bytes) : noHeader
    if (header === undefined || typeof header === 'string') return header
    const { length, addresses } = header
    if (this.#names === undefined) {
      const pool = undefined
      return { headerBytes: length, addresses, pool, asksTls: false, refusal: '' }
    }
    const answers = answersTo(bytes.subarray(length))
    if (answers === undefined) return undefined
    if (answers !== '') answer(answers)
    const headerBytes = length + answers.length * sslRequest.length
    const asksTls = answers.endsWith(takesTls)
    const hello = readClientHello(bytes.subarray(headerBytes))
    if (hello === undefined || typeof hello === 'string') return hello
    const pool = this.#names.poolOf(hello)
    const refusal = pool === undefined && !this.#isForAll ? refusalOf(hello) : ''
    return { headerBytes, addresses, pool, asksTls, refusal }
  }
}

/** Names what was asked for: an operator finds no other trace of it. */
const refusalOf = ({ serverName, alpn }: ClientHello): string => {
  const asked = serverName === undefined ? 'a client without a name' : show(serverName)
  const offered = alpn.length === 0 ? '' : ` with ${show(alpn.join(', '))}`
  return `no pool matches ${asked}${offered}`
}

const noHeader: ProxiedClient = { length: 0, addresses: undefined }

/** Of a listener that has none any more. */
export const noRules = new PrefaceRules({})

/**
 * Which of some pools a TLS client is for. An exact name goes before a wildcard, a longer wildcard
 * before a shorter one, and any name before pools that look at protocols alone; of pools for one name
 * the first that the client's protocols fit.
 */
export class ServerNames {
  readonly #pools: readonly ServerNamePool[]
  /** Indexes by name; '' has those without names. */
  readonly #byName = new Map<string, number[]>()

  constructor(pools: readonly ServerNamePool[]) {
    this.#pools = pools
    for (const [i, { names = [''] }] of pools.entries())
      for (const name of names) {
        const known = this.#byName.get(name)
        if (known === undefined) this.#byName.set(name, [i])
        else known.push(i)
      }
  }

  /** Its index; undefined where none is for this client. */
  poolOf({ serverName, alpn }: ClientHello): number | undefined {
    for (const name of patternsOf(serverName)) {
      const found = this.#byName.get(name)?.find(i => this.#fits(i, alpn))
      if (found !== undefined) return found
    }
    return undefined
  }

  #fits(pool: number, offered: readonly string[]): boolean {
    const wanted = this.#pools[pool]?.alpn
    return wanted === undefined || wanted.some(protocol => offered.includes(protocol))
  }
}

/** `a.b.c`, `*.b.c`, `*.c` and ''. */
const patternsOf = (name: string | undefined): readonly string[] => {
  if (name === undefined) return ['']
  const patterns = [name]
  for (let at = name.indexOf('.'); at >= 0; at = name.indexOf('.', at + 1))
    patterns.push(`*${name.slice(at)}`)
  return [...patterns, '']
}
