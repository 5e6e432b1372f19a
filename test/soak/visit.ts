import type { Random } from '../fault-run/random.ts'

/** How a connection goes, apart from bytes both ways. */
export const ways = [
  /** The client ends when it has sent all, the server when it has read and sent all. */
  'plain',
  /** The server ends as soon as it has sent all, and reads on. */
  'server-ends-first',
  'slow-client',
  'slow-server',
  /** With a reset, after `cutAt` bytes of what the client sends. */
  'client-resets',
  'server-resets',
] as const

export type Way = (typeof ways)[number]

/** One connection, as both ends know it from its first bytes. */
export interface Visit {
  /** Of what the client sends; the server's is one more. No two visits have the same. */
  readonly seed: number
  /** Bytes from client to server, after the header, and back. */
  readonly up: number
  readonly down: number
  readonly way: Way
  readonly cutAt: number
}

export const headerBytes = 20

export const headerOf = ({ seed, up, down, way, cutAt }: Visit): Buffer => {
  const header = Buffer.alloc(headerBytes)
  for (const [i, value] of [seed, up, down, ways.indexOf(way), cutAt].entries())
    header.writeUInt32BE(value, 4 * i)
  return header
}

export const visitOf = (header: Buffer): Visit | undefined => {
  const [seed = 0, up = 0, down = 0, nth = 0, cutAt = 0] = [0, 4, 8, 12, 16].map(at =>
    header.readUInt32BE(at),
  )
  const way = ways[nth]
  return way === undefined ? undefined : { seed, up, down, way, cutAt }
}

/** `most` bytes are rare, few are common. */
export const randomVisit = (random: Random, seed: number, most: number): Visit => {
  const up = randomBytes(random, most)
  const down = randomBytes(random, most)
  const way = random.chance(0.5) ? 'plain' : random.pick(ways)
  const slow = way === 'slow-client' || way === 'slow-server'
  const kept = slow ? 400_000 : most
  return {
    seed,
    up: Math.min(up, kept),
    down: Math.min(down, kept),
    way,
    cutAt: random.between(0, Math.min(up, kept)),
  }
}

const randomBytes = (random: Random, most: number): number => {
  const kind = random.next()
  if (kind < 0.1) return 0
  if (kind < 0.6) return random.between(1, 2000)
  if (kind < 0.93) return random.between(2000, Math.min(most, 100_000))
  return random.between(1, most)
}
