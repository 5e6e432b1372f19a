import pRetry from 'p-retry'
import type { Endpoint } from '../../services.ts'
import { type Servers, startServers } from '../../sidecar/servers.ts'
import { freePorts } from '../../topology/probe.ts'
import type { Lane } from '../../topology/topology.ts'

const retries = 4

/** By Node's words, or by those of a server's log. */
const isTaken = ({ error }: { readonly error: Error }): boolean =>
  /address already in use/i.test(error.message)

/**
 * Starts servers at so many addresses of the target's own node, all at one port. It was free
 * when it was looked for; where somebody has taken it before the servers listen, they get
 * another one, up to four times.
 * @param start - has to end what it started before it rejects
 */
export const atFreePort = <T>(
  lane: Lane,
  count: number,
  start: (at: readonly Endpoint[]) => Promise<T>,
): Promise<T> => {
  const once = async (): Promise<T> => {
    const [port = 0] = await freePorts(lane, '0.0.0.0', 1)
    return start(
      Array.from({ length: count }, (_, i) => ({
        address: `127.0.${1 + Math.floor(i / 250)}.${1 + (i % 250)}`,
        port,
      })),
    )
  }
  return pRetry(once, { retries, minTimeout: 0, shouldRetry: isTaken })
}

/** A process with servers at such addresses. Ended when `listen` rejects. */
export const serversAt = (
  lane: Lane,
  count: number,
  listen: (servers: Servers, at: readonly Endpoint[]) => Promise<unknown>,
): Promise<{ readonly endpoints: readonly Endpoint[]; readonly servers: Servers }> =>
  atFreePort(lane, count, async endpoints => {
    const servers = startServers(lane)
    try {
      await listen(servers, endpoints)
      return { endpoints, servers }
    } catch (error) {
      await servers.stop()
      throw error
    }
  })
