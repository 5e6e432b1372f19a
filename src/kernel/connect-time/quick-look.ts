import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { idOf, type NetworkNamespace } from './network-namespaces.ts'

/**
 * Whether a network namespace may have a connected UDP socket with a peer at one of these ports, by
 * /proc/PID/net (proc_net(5)): to read it costs a fifteenth of the processes that ask for more.
 */
export const mayHavePeersAt = async (
  ports: ReadonlySet<number>,
  { id, processes: [folder] }: NetworkNamespace,
): Promise<boolean> => {
  if (folder === undefined) return true
  try {
    const tables = await Promise.all(
      ['udp', 'udp6'].map(name => readTable(join(folder, 'net', name))),
    )
    // The PID may be another process's by now.
    if (idOf(await stat(join(folder, 'ns/net'))) !== id) return true
    const hex = Array.from(ports, port =>
      port.toString(16).toUpperCase().padStart(4, '0'),
    )
    // The peer's port, and the state: TCP_ESTABLISHED.
    const line = new RegExp(`:(?:${hex.join('|')}) 01 `)
    return tables.some(table => line.test(table))
  } catch {
    return true
  }
}

/** Without IPv6 there is no udp6. */
const readTable = async (path: string): Promise<string> => {
  try {
    return await readFile(path, 'latin1')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}
