import { type RunTool, ToolError } from '../run-tool.ts'
import { isKubeProxySet } from '../ipvs/set-names.ts'
import type { Kind, Leftover, Stay } from './leftover.ts'

/**
 * nf_tables lets go of what a deleted rule used a moment after the rule has gone, so a set
 * may be "in use by a kernel component" for so long.
 */
const tries = 10
const pauseMs = 100

export interface IpsetDeps {
  readonly run: RunTool
  readonly sleep: (ms: number) => Promise<void>
}

export const ipsetsKind = (deps: IpsetDeps): Kind => ({
  name: 'ipsets',
  find: async () => {
    const text = await deps.run('ipset', ['list', '-n'])
    const sets = text.split('\n').filter(isKubeProxySet)
    return { leftovers: sets.length === 0 ? [] : [leftover(deps, sets)], stays: [] }
  },
})

const lineOf = (set: string): string => `ipset ${set}`

const leftover = ({ run, sleep }: IpsetDeps, sets: readonly string[]): Leftover => ({
  what: sets.map(lineOf),
  remove: async () => {
    let left = await destroy(run, sets)
    for (let more = tries; more > 1 && left.size > 0; more -= 1) {
      await sleep(pauseMs)
      left = await destroy(run, [...left.keys()])
    }
    return Array.from(left, ([set, why]): Stay => ({ what: lineOf(set), why }))
  },
})

/** The sets that stayed, each with the reason. */
const destroy = async (
  run: RunTool,
  sets: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const left = new Map<string, string>()
  for (const set of sets) {
    try {
      await run('ipset', ['destroy', set])
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      left.set(set, error.message)
    }
  }
  return left
}
