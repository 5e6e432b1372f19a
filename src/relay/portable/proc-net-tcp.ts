import { closeSync, openSync, readSync } from 'node:fs'
import { endianness } from 'node:os'
import { addressBytes } from '../../util/ip.ts'
import { pacer } from '../../util/list-diff.ts'

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
