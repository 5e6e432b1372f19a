import { forEachYielding } from '../../util/yielding.ts'
import type { ServerClaim } from './compile.ts'
import type { KnownServer, KnownState } from './known-state.ts'
import { isUdp, type ServerId } from './server-id.ts'

/** A destination that gets nothing new, and goes once its connections have ended. */
export interface Draining {
  readonly id: ServerId
  readonly destination: string
}

/** What makes some virtual servers what they should be. */
export interface ServerChanges {
  /** For `ipvsadm -R`. */
  readonly lines: string[]
  readonly draining: Draining[]
}

/**
 * The difference, which `known` has from then on. What is not wanted any more of a server
 * that stays gets weight 0, so that connections to it go on; with a server that is not
 * wanted all of its connections end.
 */
export const serverChanges = async (
  ids: Iterable<ServerId>,
  wanted: (id: ServerId) => ServerClaim | undefined,
  known: KnownState,
): Promise<ServerChanges> => {
  const changes: ServerChanges = { lines: [], draining: [] }
  await forEachYielding(ids, id => {
    const claim = wanted(id)
    if (claim !== undefined) change(changes, claim, known)
    else if (known.servers.delete(id)) changes.lines.push(`-D ${id}`)
  })
  return changes
}

const change = (
  { lines, draining }: ServerChanges,
  { id, how, destinations, staying }: ServerClaim,
  known: KnownState,
): void => {
  const server = known.servers.get(id) ?? { how: '', destinations: new Map() }
  if (server.how !== how)
    lines.push(`${known.servers.has(id) ? '-E' : '-A'} ${id} ${how}`)
  server.how = how
  known.servers.set(id, server)
  for (const destination of destinations)
    if (server.destinations.get(destination) !== 1) {
      const verb = server.destinations.has(destination) ? '-e' : '-a'
      lines.push(`${verb} ${id} -r ${destination} -m -w 1`)
      server.destinations.set(destination, 1)
    }
  for (const destination of server.destinations.keys())
    if (!destinations.has(destination)) {
      if (isUdp(id) && !staying.has(destination))
        lines.push(removal({ id, destination }, server))
      else {
        if (server.destinations.get(destination) !== 0)
          lines.push(`-e ${id} -r ${destination} -m -w 0`)
        server.destinations.set(destination, 0)
        // UDP flows have no end: they stay for as long as it serves.
        if (!isUdp(id)) draining.push({ id, destination })
      }
    }
}

/** Takes a destination out. */
export const removal = (
  { id, destination }: Draining,
  { destinations }: KnownServer,
): string => {
  destinations.delete(destination)
  return `-d ${id} -r ${destination}`
}
