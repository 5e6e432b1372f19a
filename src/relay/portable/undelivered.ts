import type { Clock } from '../../util/clock.ts'
import { closeSync, openSync, readSync } from 'node:fs'
import { endianness } from 'node:os'
import { addressBytes } from '../../util/ip.ts'
import { pacer } from '../../util/list-diff.ts'

const firstCheckMs = 1
const nextCheckMs = 20
const longestPauseMs = 500
const blindWaitMs = 100

/** What is asked of a socket. */
interface Watched {
  readonly localAddress?: string | undefined
  readonly localPort?: number | undefined
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  readonly writableLength: number
  readonly destroyed: boolean
}

interface Waiting {
  readonly socket: Watched
  readonly table: string
  readonly row: string
  readonly since: number
  readonly until: number
  readonly done: () => void
}

/**
 * Waits until bytes handed to a socket have reached its peer, for the one case in which
 * that matters: before a reset is passed on, since the kernel throws away what it has not
 * sent yet. Node can't ask a socket (SIOCOUTQ); on Linux /proc/net/tcp has it for all
 * sockets at once, so that one read serves all that wait. Where that file does not
 * exist the wait is a blind 100 ms.
 */
export class Undelivered {
  readonly #clock: Clock
  readonly #read: (path: string) => Promise<Buffer>
  readonly #waiting = new Set<Waiting>()
  #checking = false

  constructor(clock: Clock, read: (path: string) => Promise<Buffer> = readTable) {
    this.#clock = clock
    this.#read = read
  }

  /** Calls `done` once: when the peer has it all, the socket is closed or `ms` are over. */
  wait(socket: Watched, ms: number, done: () => void): void {
    const row = rowIn(socket)
    if (row === undefined) return done()
    const since = this.#clock.now()
    this.#waiting.add({ socket, ...row, since, until: since + ms, done })
    if (!this.#checking) this.#checkAfter(firstCheckMs)
  }

  /**
   * For each group of sockets the bytes that have not reached their peers; 0 where that
   * can't be known. One read serves all groups.
   */
  async unsent(groups: readonly (readonly Watched[])[]): Promise<number[]> {
    const tables = await this.#readTables(
      groups.flat().flatMap(socket => rowIn(socket) ?? []),
    )
    const left = (socket: Watched): number => {
      const at = rowIn(socket)
      const table = at && tables.get(at.table)
      const unacked = at && table ? unacknowledged(table, at.row) : 0
      return socket.writableLength + (unacked ?? 0)
    }
    return groups.map(group => group.reduce((sum, socket) => sum + left(socket), 0))
  }

  #checkAfter(ms: number): void {
    this.#checking = true
    this.#clock.setTimeout(() => void this.#check(), ms)
  }

  async #check(): Promise<void> {
    const started = this.#clock.now()
    // A table says nothing of what is handed to the kernel while it is being read.
    const flushed = [...this.#waiting].filter(({ socket }) => socket.writableLength === 0)
    const tables = await this.#readTables(flushed)
    const now = this.#clock.now()
    for (const waiting of flushed) {
      if (isDelivered(waiting, tables.get(waiting.table), now)) this.#end(waiting)
    }
    for (const waiting of this.#waiting) {
      if (waiting.socket.destroyed || now >= waiting.until) this.#end(waiting)
    }
    this.#checking = false
    // A table of 10 000 sockets takes 30 ms to read: rarely spend more than a fifth on it.
    const pause = Math.min(Math.max(nextCheckMs, 4 * (now - started)), longestPauseMs)
    if (this.#waiting.size > 0) this.#checkAfter(pause)
  }

  #end(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    waiting.done()
  }

  async #readTables(
    of: readonly { readonly table: string }[],
  ): Promise<ReadonlyMap<string, Buffer | undefined>> {
    const paths = new Set(of.map(waiting => waiting.table))
    const read = async (path: string): Promise<[string, Buffer | undefined]> => [
      path,
      // Not Linux, or no /proc: the blind wait is for that.
      await this.#read(path).catch(() => undefined),
    ]
    return new Map(await Promise.all([...paths].map(read)))
  }
}

/** Where a socket stands in the kernel's tables; undefined when it is not connected. */
const rowIn = ({
  localAddress,
  localPort,
  remoteAddress,
  remotePort,
}: Watched): { readonly table: string; readonly row: string } | undefined =>
  localAddress && localPort && remoteAddress && remotePort
    ? {
        table: tableOf(localAddress),
        row: rowOf(localAddress, localPort, remoteAddress, remotePort),
      }
    : undefined

/** To be asked of a socket whose bytes the kernel had before the table was read. */
const isDelivered = (
  { row, since }: Waiting,
  table: Buffer | undefined,
  now: number,
): boolean => {
  if (table === undefined) return now - since >= blindWaitMs
  // A socket without a row has been closed: there is no peer left to deliver to.
  return (unacknowledged(table, row) ?? 0) === 0
}

/**
 * Finds sockets in Linux's /proc/net/tcp and tcp6 (proc_pid_net(5)). A row reads
 * `sl: local:port remote:port st tx_queue:rx_queue ...`, all in hexadecimal.
 */
export const tableOf = (address: string): string =>
  address.includes(':') ? '/proc/net/tcp6' : '/proc/net/tcp'

/**
 * The table as it is now. The kernel hands out a page of it with each call, so that reading by
 * node's threads is a trip to a thread for every 27 sockets, of up to half a second each on a
 * host that is short of processors. A call takes some 20 us.
 */
export const readTable = async (path: string): Promise<Buffer> => {
  const turn = pacer()
  const pages: Buffer[] = []
  const fd = openSync(path, 'r')
  try {
    for (;;) {
      const page = Buffer.allocUnsafe(pageSize)
      const length = readSync(fd, page)
      if (length === 0) return Buffer.concat(pages)
      pages.push(page.subarray(0, length))
      await turn()
    }
  } finally {
    closeSync(fd)
  }
}

const pageSize = 4096

/** How the row of a connected socket spells its two ends. */
export const rowOf = (
  local: string,
  localPort: number,
  remote: string,
  remotePort: number,
): string => `${hexEnd(local, localPort)} ${hexEnd(remote, remotePort)}`

/** Bytes written to the socket and not yet acknowledged; undefined when it has no row. */
export const unacknowledged = (table: Buffer, row: string): number | undefined => {
  const at = table.indexOf(row, 0, 'latin1')
  if (at < 0) return undefined
  const state = ' SS '.length
  const start = at + row.length + state
  return Number.parseInt(table.toString('latin1', start, start + 8), 16)
}

const hexEnd = (address: string, port: number): string =>
  `${hexAddress(address)}:${port.toString(16).toUpperCase().padStart(4, '0')}`

/** The kernel prints addresses as 32-bit words of the host's byte order. */
const hexAddress = (address: string): string => {
  const bytes = addressBytes(address)
  const little = endianness() === 'LE'
  let hex = ''
  for (let word = 0; word < bytes.length; word += 4) {
    const four = bytes.slice(word, word + 4)
    for (const byte of little ? four.toReversed() : four) {
      hex += byte.toString(16).padStart(2, '0')
    }
  }
  return hex.toUpperCase()
}
