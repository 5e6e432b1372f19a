import { benchProgram, startChild } from '../process/child.ts'
import type { Endpoint } from '../services.ts'
import type { Place } from '../topology/topology.ts'

/**
 * What a server of a scenario's own does with a connection. `http`: what pods serve. `greets`: says a line and closes.
 * `answers`: the same once it has heard something. `closes`: ends it before a byte, every
 * other time by a reset. `checked`: what an HTTP or Redis check wants to hear; `GET /primary`
 * is answered with 200 only at the address of the primary. `postgres`: the question for a
 * password. `fast`, `slow`: a line for each line, one client after another, in 2 and 20 ms.
 * `holds`: a line after 20 ms, for all at once.
 */
export type Behaviour =
  | 'http'
  | 'greets'
  | 'answers'
  | 'closes'
  | 'checked'
  | 'postgres'
  | 'fast'
  | 'slow'
  | 'holds'

export type ServerQuestion =
  | { readonly kind: 'listen'; readonly behaviour: Behaviour; readonly at: Endpoint }
  | { readonly kind: 'primary'; readonly address: string }
  | { readonly kind: 'most' }

const answersWithinMs = 20_000

/** A process with such servers. */
export interface Servers {
  /** Rejects when the port is taken. */
  listen(behaviour: Behaviour, at: Endpoint): Promise<void>
  /** From now on the primary is there; '' for none. */
  setPrimary(address: string): Promise<void>
  /** The most connections that one of them had at a time. */
  most(): Promise<number>
  readonly stop: () => Promise<void>
}

export const startServers = ({ enter }: Pick<Place, 'enter'>): Servers => {
  const child = startChild(benchProgram('sidecar/servers-main'), enter)
  const ask = async (question: ServerQuestion): Promise<unknown> =>
    child.ask(question, answersWithinMs)
  return {
    listen: async (behaviour, at) => void (await ask({ kind: 'listen', behaviour, at })),
    setPrimary: async address => void (await ask({ kind: 'primary', address })),
    most: async () => Number(await ask({ kind: 'most' })),
    stop: () => child.stop(),
  }
}
