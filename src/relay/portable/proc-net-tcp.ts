import { endianness } from 'node:os'
import { addressBytes } from '../../util/ip.ts'

/**
 * Finds sockets in Linux's /proc/net/tcp and tcp6 (proc_pid_net(5)). A row reads
 * `sl: local:port remote:port st tx_queue:rx_queue ...`, all in hexadecimal.
 */
export const tableOf = (address: string): string =>
  address.includes(':') ? '/proc/net/tcp6' : '/proc/net/tcp'

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
