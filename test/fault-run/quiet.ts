import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiServer } from '../support/api-server/server.ts'
import type { Cluster } from './cluster.ts'
import { leavingTaint } from './cluster.ts'
import { differences } from './compare.ts'
import { type Expectation, expectations, tryDoors } from './doors.ts'
import { wanted } from './oracle.ts'
import type { ProxyProcess } from './proxy-process.ts'

export interface Quiet {
  /** From the end of all faults until all was right, in milliseconds. */
  readonly ms: number
  /** What was seen to be right. */
  readonly doors: readonly Expectation[]
}

export interface QuietOptions {
  readonly cluster: Cluster
  readonly proxy: ProxyProcess
  /** How long it may take, in milliseconds. */
  readonly boundMs: number
  /** Number of the first request of which the proxy must have learnt where the server is. */
  readonly mustListFrom?: number
}

const sourceSays = 'the source says:'

/**
 * Nothing changes any more: waits until the proxy serves exactly what the server holds,
 * and dials all of it. Rejects with what is still wrong when the time is over.
 */
export const quietMoment = async (options: QuietOptions): Promise<Quiet> => {
  const { cluster, proxy, boundMs } = options
  const startedAt = performance.now()
  let doors: readonly Expectation[] = []
  const look = async (): Promise<string[]> => {
    const status = await proxy.status()
    const held = cluster.held(status.node?.zone)
    const want = wanted(held)
    doors = expectations(want)
    const found = differences(status, want, held)
    const { error } = status.source
    if (error !== '') found.push(`${sourceSays} ${error}`)
    const health = await proxy.health('/healthz')
    if (health !== healthOf(cluster)) found.push(`/healthz says ${health}`)
    if (options.mustListFrom !== undefined)
      found.push(...notListed(cluster.server, options.mustListFrom))
    return found.length > 0 ? found : tryDoors(doors)
  }
  for (;;) {
    const found = await look()
    const ms = performance.now() - startedAt
    if (found.length === 0) {
      // A watch that was opened under a fault may end only now: that makes nothing wrong.
      const again = (await look()).filter(what => !what.startsWith(sourceSays))
      if (again.length === 0) return { ms, doors }
      throw new Error(`right at first, and then: ${again.join('\n  ')}`)
    }
    if (proxy.ended !== '') throw new Error(proxy.ended)
    if (ms > boundMs)
      throw new Error(`after ${Math.round(ms)} ms of quiet:\n  ${found.join('\n  ')}`)
    await sleep(50)
  }
}

const healthOf = ({ node }: Cluster): number =>
  node === undefined || node.spec.taints?.some(({ key }) => key === leavingTaint) === true
    ? 503
    : 200

/** A server with older versions has to be noticed for each collection. */
const notListed = ({ requests }: ApiServer, from: number): string[] =>
  ['services', 'endpointslices', 'nodes']
    .filter(
      resource =>
        !requests.all
          .slice(from)
          .some(
            request =>
              request.resource === resource &&
              request.status === 200 &&
              (request.verb === 'list' || 'sendInitialEvents' in request.query),
          ),
    )
    .map(resource => `it has not asked where the server is for ${resource}`)
