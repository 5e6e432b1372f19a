import { stat } from 'node:fs/promises'
import { canonicalIp } from '../../util/ip.ts'
import { readBounded } from '../../util/read-text.ts'
import { messageOf } from '../../util/usher-error.ts'

/** Lists of names to block have some MiB. */
const mostBytes = 32 * 1024 * 1024

/** How often a name that is in the hosts file is looked for there again. */
export const hostsMs = 5000

type Hosts = ReadonlyMap<string, readonly string[]>

/** Where the system has it. */
export const systemHosts =
  process.platform === 'win32'
    ? String.raw`${process.env['SystemRoot']}\System32\drivers\etc\hosts`
    : '/etc/hosts'

/** The hosts file, or one like it; read again when it has changed. */
export class HostsFile {
  readonly #path: string
  #state = ''
  #hosts: Hosts = new Map()

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Canonical; empty when the file does not know the name, or is not there. Rejects when
   * it can't be read: what it would have said can't be known then.
   */
  async addressesOf(host: string): Promise<readonly string[]> {
    try {
      const { mtimeMs, size, ino } = await stat(this.#path)
      const state = `${mtimeMs} ${size} ${ino}`
      if (state !== this.#state)
        this.#hosts = parseHosts(await readBounded(this.#path, mostBytes))
      this.#state = state
    } catch (error) {
      this.#state = ''
      this.#hosts = new Map()
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        throw new Error(`cannot read ${this.#path}: ${messageOf(error)}`, {
          cause: error,
        })
    }
    return this.#hosts.get(keyOf(host)) ?? []
  }
}

/** hosts(5): an address, then its names; a name may be on several lines. */
export const parseHosts = (text: string): Hosts => {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [given = '', ...names] = line
      .replace(/#.*/, '')
      .split(/\s+/)
      .filter(word => word !== '')
    const address = canonicalIp(given)
    if (address === undefined) continue
    for (const name of names) {
      const addresses = hosts.get(keyOf(name))
      if (addresses === undefined) hosts.set(keyOf(name), [address])
      else if (!addresses.includes(address)) addresses.push(address)
    }
  }
  return hosts
}

const keyOf = (name: string): string => name.toLowerCase().replace(/\.$/, '')
