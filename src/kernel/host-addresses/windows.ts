import type { Clock } from '../../util/clock.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import type { RunTool } from '../run-tool.ts'
import type { Probe } from '../probe.ts'
import type { HostAddresses } from './host-addresses.ts'
import { watchMissing } from './watch-missing.ts'

export interface WindowsHostAddressesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** The interface that gets the addresses; by default that of kube-proxy's winuserspace. */
  readonly interfaceName?: string
}

const defaultInterface = 'vEthernet (HNS Internal NIC)'

/**
 * By `netsh`, one call for each address, as kube-proxy's winuserspace did. It was never run
 * on Windows: its commands are tested as text. There are no ranges. An address bears
 * no mark, so that `remove` knows only those of this process; those of one that was killed
 * are taken for the host's own, until the system starts anew.
 */
export class WindowsHostAddresses implements HostAddresses {
  readonly #run: RunTool
  readonly #clock: Clock
  readonly #interface: string
  readonly #ours = new Set<string>()
  readonly #turns = new Turns()

  constructor({ run, clock, interfaceName }: WindowsHostAddressesDeps) {
    this.#run = run
    this.#clock = clock
    this.#interface = interfaceName ?? defaultInterface
  }

  sync(wanted: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return this.#turns.take(async () => {
      const errors = new Map<string, string>()
      const keep = new Set(wanted)
      for (const cidr of wanted) {
        const reason = this.#ours.has(cidr) ? '' : await this.#add(cidr)
        if (reason !== '') errors.set(cidr, reason)
      }
      for (const cidr of this.#ours) {
        const reason = keep.has(cidr) ? '' : await this.#remove(cidr)
        if (reason !== '') errors.set(cidr, reason)
      }
      return errors
    })
  }

  watch(damaged: (what: string) => void): () => void {
    return watchMissing(this.#clock, () => this.missing(), damaged)
  }

  missing(): Promise<readonly string[]> {
    return this.#turns.take(() => this.#missing())
  }

  remove(): Promise<void> {
    return this.#turns.take(async () => {
      const stay: string[] = []
      for (const cidr of this.#ours) {
        const reason = await this.#remove(cidr)
        if (reason !== '') stay.push(`${cidr} stays: ${reason}`)
      }
      if (stay.length > 0) throw new Error(stay.join('; '))
    })
  }

  probe(family: IpFamily): Promise<Probe> {
    return this.#turns.take(async () => {
      try {
        await this.#run('netsh', netshList(family, this.#interface))
        return { usable: true, detail: `netsh, interface ${this.#interface}` }
      } catch (error) {
        return { usable: false, detail: (error as Error).message }
      }
    })
  }

  async #add(cidr: string): Promise<string> {
    if (!/\/(?:32|128)$/.test(cidr)) return 'Windows has single addresses only'
    if (await this.#has(cidr)) return ''
    const reason = await this.#try(netshArguments('add', this.#interface, cidr))
    if (reason === '') this.#ours.add(cidr)
    return reason
  }

  async #remove(cidr: string): Promise<string> {
    const reason = await this.#try(netshArguments('delete', this.#interface, cidr))
    if (reason !== '' && (await this.#has(cidr))) return reason
    this.#ours.delete(cidr)
    return ''
  }

  /** Why it failed; '' when it did not. */
  async #try(args: readonly string[]): Promise<string> {
    try {
      await this.#run('netsh', args)
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }

  async #has(cidr: string): Promise<boolean> {
    try {
      const family = cidr.includes(':') ? 'IPv6' : 'IPv4'
      const text = await this.#run('netsh', netshList(family, this.#interface))
      return listsAddress(text, cidr.slice(0, cidr.lastIndexOf('/')))
    } catch {
      // The call that follows fails with what is wrong.
      return false
    }
  }

  async #missing(): Promise<readonly string[]> {
    const missing: string[] = []
    for (const family of ipFamilies) {
      const mine = [...this.#ours].filter(
        one => one.includes(':') === (family === 'IPv6'),
      )
      if (mine.length === 0) continue
      try {
        const text = await this.#run('netsh', netshList(family, this.#interface))
        missing.push(
          ...mine.filter(one => !listsAddress(text, one.slice(0, one.lastIndexOf('/')))),
        )
      } catch {
        // Nothing is known then; this looks again.
      }
    }
    for (const cidr of missing) this.#ours.delete(cidr)
    return missing
  }
}

/**
 * Arguments of netsh.exe that put a single address on an interface, or take it off.
 * `store=active`: it is gone after a restart of the system. `skipassource`: no connection
 * of the host's has it as its source.
 */
const netshArguments = (
  action: 'add' | 'delete',
  interfaceName: string,
  cidr: string,
): readonly string[] => {
  const address = cidr.slice(0, cidr.lastIndexOf('/'))
  const family: IpFamily = address.includes(':') ? 'IPv6' : 'IPv4'
  // The two halves of netsh name the same thing differently.
  const start =
    family === 'IPv4'
      ? ['interface', 'ipv4', action, 'address', `name=${interfaceName}`]
      : ['interface', 'ipv6', action, 'address', `interface=${interfaceName}`]
  if (action === 'delete') return [...start, `address=${address}`, 'store=active']
  const mask =
    family === 'IPv4'
      ? [`address=${address}`, 'mask=255.255.255.255']
      : [`address=${address}/128`]
  return [...start, ...mask, 'skipassource=true', 'store=active']
}

/** That list the addresses of an interface. */
const netshList = (family: IpFamily, interfaceName: string): readonly string[] => [
  'interface',
  family === 'IPv4' ? 'ipv4' : 'ipv6',
  'show',
  'addresses',
  family === 'IPv4' ? `name=${interfaceName}` : `interface=${interfaceName}`,
]

/** netsh says in the language of the system that something is there, or is not. */
const listsAddress = (text: string, address: string): boolean =>
  text
    .toLowerCase()
    .split(/[\s,]+/)
    .includes(address)
