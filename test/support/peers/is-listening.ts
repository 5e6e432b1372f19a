import { readFile } from 'node:fs/promises'

/** Whether all of the ports of an IPv4 address are listened on; without a connection to them (proc(5)). */
export const isListening = async (
  host: string,
  ports: readonly number[],
): Promise<boolean> => {
  const table = await readFile('/proc/net/tcp', 'latin1')
  const words = host.split('.').toReversed()
  const address = words.map(byte => Number(byte).toString(16).padStart(2, '0')).join('')
  return ports.every(port => {
    const place = `${address}:${port.toString(16).padStart(4, '0')}`.toUpperCase()
    return table.includes(` ${place} 00000000:0000 0A `)
  })
}
