import { readdir, readFile, readlink } from 'node:fs/promises'

/**
 * What an Usher with rules in this network namespace holds: an abstract unix socket, which
 * the kernel lets go of with the process (unix(7)).
 */
const heldName = '@usher-capture'

/**
 * The Usher that holds this network namespace's capture, as `process 123`; '' for none.
 * Without the right to look into other processes it is `a process`.
 */
export const runningUsher = async (): Promise<string> => {
  const inode = inodeOf(await textOf('/proc/net/unix'))
  if (inode === undefined) return ''
  const holder = await holderOf(inode)
  return holder === undefined ? 'a process' : `process ${holder}`
}

const textOf = async (path: string): Promise<string> => {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    // No /proc, or no unix sockets: then nobody has one.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** The last two columns are the inode and the name. */
const inodeOf = (table: string): string | undefined => {
  for (const line of table.split('\n')) {
    const words = line.trim().split(/ +/)
    if (words.at(-1) === heldName) return words.at(-2)
  }
  return undefined
}

const holderOf = async (inode: string): Promise<string | undefined> => {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const held = await Promise.all(pids.map(pid => holds(pid, `socket:[${inode}]`)))
  return pids.find((_, index) => held[index])
}

const holds = async (pid: string, link: string): Promise<boolean> => {
  const fds = `/proc/${pid}/fd`
  try {
    const names = await readdir(fds)
    const links = await Promise.all(
      names.map(name => readlink(`${fds}/${name}`).catch(() => '')),
    )
    return links.includes(link)
  } catch {
    // It has ended, or is none of ours to look into.
    return false
  }
}
