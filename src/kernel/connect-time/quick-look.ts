import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { idOf, type NetworkNamespace } from './network-namespaces.ts'

/**
 * Whether a network namespace may have a connected UDP socket with a peer at one of these ports:
 * asking so costs a fifteenth of the processes that ask for more.
 */
export const mayHavePeersAt = async (
  ports: ReadonlySet<number>,
  { id, processes: [folder] }: NetworkNamespace,
): Promise<boolean> => {
  if (folder === undefined) return true
  const hasPeers = await sees(ports, folder)
  // The PID may be another process's by now.
  const now = await stat(join(folder, 'ns/net')).then(idOf, () => '')
  return hasPeers || now !== id
}

/** The same of where a process is; its tables (/proc/PID/net, proc_net(5)) are for everybody. */
export const sees = async (
  ports: ReadonlySet<number>,
  folder: string,
): Promise<boolean> => {
  const hex = Array.from(ports, port => port.toString(16).toUpperCase().padStart(4, '0'))
  // The peer's port, and the state: TCP_ESTABLISHED.
  const line = new RegExp(`:(?:${hex.join('|')}) 01 `)
  try {
    const paths = ['udp', 'udp6'].map(name => join(folder, 'net', name))
    return (await Promise.all(paths.map(readTable))).some(table => line.test(table))
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
