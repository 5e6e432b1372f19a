import type { ServerNamePool } from '../model/traffic.ts'
import type { ClientHello } from './client-hello.ts'

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
