import { closeSync, openSync, readSync } from 'node:fs'
import type { Socket } from 'node:net'
import { endianness } from 'node:os'
import { addressBytes } from '../../../util/ip.ts'

/** Milliseconds for which a table counts as it was read: one read serves all that ask. */
const leastAgeMs = 1
/** A table of 10 000 sockets takes 30 ms to read: rarely spend more than a fifth on it. */
const ofReadTime = 4
/** Where there is no table. Milliseconds. */
const blindWaitMs = 100
const pageSize = 4096

interface Table {
  /** Undefined: there is none. */
  readonly text: Buffer | undefined
  readonly readAt: number
  readonly until: number
}

/**
 * Bytes in the kernel's send queues, for the one case in which that matters: before a reset is passed on, since
 * the kernel throws away what it has not sent yet. Node can't ask a socket (SIOCOUTQ); on Linux /proc/net/tcp
 * has it for all at once (proc_pid_net(5)). Elsewhere what was written counts for 100 ms.
 */
export class SendQueues {
  readonly #tables = new Map<string, Table>()

  /**
   * What its peer has yet to acknowledge, as far as is known, of what the kernel has had since `since`
   * (`performance` time). In a ring that unwinds one reading serves all hops: else each would wait for its own.
   */
  left(socket: Socket, since: number): number {
    const { localAddress, localPort, remoteAddress, remotePort } = socket
    if (!localAddress || !localPort || !remoteAddress || !remotePort) return 0
    const { text, readAt } = this.#table(tableOf(localAddress))
    if (text === undefined) return performance.now() - since < blindWaitMs ? 1 : 0
    // It says nothing of what the kernel was given later.
    if (readAt < since) return 1
    // A socket without a row has been closed: there is no peer left to deliver to.
    const row = rowOf(localAddress, localPort, remoteAddress, remotePort)
    return unacknowledged(text, row) ?? 0
  }

  #table(path: string): Table {
    const now = performance.now()
    const known = this.#tables.get(path)
    if (known !== undefined && now < known.until) return known
    const text = readTable(path)
    const ms = Math.max(leastAgeMs, ofReadTime * (performance.now() - now))
    const table = { text, readAt: now, until: performance.now() + ms }
    this.#tables.set(path, table)
    return table
  }
}

/** A row reads `sl: local:port remote:port st tx_queue:rx_queue ...`, all in hexadecimal. */
export const tableOf = (address: string): string =>
  address.includes(':') ? '/proc/net/tcp6' : '/proc/net/tcp'

/**
 * The table as it is now; undefined where there is none. The kernel hands out a page of it with each call, so
 * that reading by node's threads is a trip to a thread for every 27 sockets. A call takes some 20 us.
 */
export const readTable = (path: string): Buffer | undefined => {
  try {
    const fd = openSync(path, 'r')
    const pages: Buffer[] = []
    try {
      for (;;) {
        const page = Buffer.allocUnsafe(pageSize)
        const length = readSync(fd, page)
        if (length === 0) return Buffer.concat(pages)
        pages.push(page.subarray(0, length))
      }
    } finally {
      closeSync(fd)
    }
  } catch {
    // Not Linux, or no /proc: the blind wait is for that.
    return undefined
  }
}

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
