import type { Clock } from '../../util/clock.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import type { RunTool } from '../run-tool.ts'
import {
  type AddressKind,
  ipv4Routes,
  ipv6OnLoopback,
  ipv6Routes,
} from './address-kind.ts'
import { FamilyAddresses } from './family-addresses.ts'
import type { Probe } from '../probe.ts'
import type { HostAddresses } from './host-addresses.ts'
import { lookAgain } from './look-again.ts'
import { listOf, runIpBatch } from './ip-tool.ts'

export interface LinuxHostAddressesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** Addresses of other families are none of its business, by default of neither. */
  readonly families?: readonly IpFamily[]
}

/**
 * By `ip` (iproute2): local routes for IPv4, and for IPv6 where net.ipv6.ip_nonlocal_bind
 * is 1; else IPv6 addresses on the loopback interface. Each bears a mark, by which a later
 * process knows it.
 *
 * Every IPv6 address of the host makes the start of every unbound IPv6 connection slower,
 * by some 0.2 us: the kernel looks at all of them for a source address (RFC 6724). Routes
 * cost nothing.
 */
export const linuxHostAddresses = (deps: LinuxHostAddressesDeps): HostAddresses =>
  new LinuxHostAddresses(deps)

class LinuxHostAddresses implements HostAddresses {
  readonly #deps: LinuxHostAddressesDeps
  readonly #families: readonly IpFamily[]
  readonly #known = new Map<IpFamily, FamilyAddresses>()
  readonly #turns = new Turns()
  /** Those of whose addresses none is reached: another program took the rule away (ip-rule(8)). */
  readonly #unruled = new Set<IpFamily>()

  constructor(deps: LinuxHostAddressesDeps) {
    this.#deps = deps
    this.#families = deps.families ?? ipFamilies
  }

  sync(wanted: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return this.#turns.take(async () => {
      const errors = new Map<string, string>()
      for (const family of this.#families) {
        const failed = await this.#syncOne(family, wanted.filter(isOf[family]))
        for (const [cidr, why] of failed) errors.set(cidr, why)
      }
      return errors
    })
  }

  watch(damaged: (what: string) => void): () => void {
    return lookAgain(this.#deps.clock, () => this.missing(), damaged)
  }

  missing(): Promise<readonly string[]> {
    return this.#turns.take(() => this.#missing())
  }

  remove(): Promise<void> {
    return this.#turns.take(async () => {
      this.#known.clear()
      for (const family of this.#families) {
        for (const kind of await this.#kindsOf(family)) await this.#made(kind).removeAll()
      }
    })
  }

  probe(family: IpFamily): Promise<Probe> {
    return this.#turns.take(async () => {
      const [kind] = await this.#kindsOf(family)
      return probeKind(kind, this.#deps.run)
    })
  }

  async #syncOne(
    family: IpFamily,
    wanted: readonly string[],
  ): Promise<ReadonlyMap<string, string>> {
    try {
      const errors = await (await this.#of(family)).sync(new Set(wanted))
      const why =
        'no rule of this host looks up table local (ip rule add pref 0 table local)'
      return this.#unruled.has(family) ? new Map(wanted.map(cidr => [cidr, why])) : errors
    } catch (error) {
      return new Map(wanted.map(cidr => [cidr, (error as Error).message]))
    }
  }

  async #missing(): Promise<readonly string[]> {
    const missing: string[] = []
    for (const [family, addresses] of this.#known) {
      try {
        missing.push(...(await this.#changedRule(family)))
        missing.push(...(await addresses.missing()))
      } catch {
        // Nothing is known then. A sync that finds `ip` broken reports it; this looks again.
      }
    }
    return missing
  }

  async #changedRule(family: IpFamily): Promise<readonly string[]> {
    const version = family === 'IPv4' ? '-4' : '-6'
    const args = [version, 'rule', 'show', 'table', 'local']
    const isThere = (await listOf(this.#deps.run, args)).trim() !== ''
    if (isThere !== this.#unruled.has(family)) return []
    if (isThere) this.#unruled.delete(family)
    else this.#unruled.add(family)
    return [`the rule for table local, ${family}`]
  }

  /** Addresses of the other kind are from a time when the host was set up otherwise. */
  async #of(family: IpFamily): Promise<FamilyAddresses> {
    const known = this.#known.get(family)
    if (known !== undefined) return known
    const [kind, ...others] = await this.#kindsOf(family)
    for (const other of others) await this.#made(other).removeAll()
    const made = this.#made(kind)
    this.#known.set(family, made)
    return made
  }

  /** First the one to use here. */
  async #kindsOf(family: IpFamily): Promise<readonly [AddressKind, ...AddressKind[]]> {
    if (family === 'IPv4') return [ipv4Routes]
    const sysctl = await nonlocalBind(this.#deps.run)
    // A kernel without IPv6 can't list IPv6 routes, and has none.
    if (sysctl === undefined) return [ipv6OnLoopback]
    return sysctl === '1' ? [ipv6Routes, ipv6OnLoopback] : [ipv6OnLoopback, ipv6Routes]
  }

  #made(kind: AddressKind): FamilyAddresses {
    const { run, clock } = this.#deps
    return new FamilyAddresses(kind, run, clock)
  }
}

const isOf: Readonly<Record<IpFamily, (cidr: string) => boolean>> = {
  IPv4: cidr => !cidr.includes(':'),
  IPv6: cidr => cidr.includes(':'),
}

/** Undefined where the kernel has no IPv6. */
const nonlocalBind = async (run: RunTool): Promise<string | undefined> => {
  try {
    return (await run('cat', ['/proc/sys/net/ipv6/ip_nonlocal_bind'])).trim()
  } catch {
    return undefined
  }
}

/** Beside the proxy addresses, so that a probe never takes one away. */
const spare = { IPv4: '169.254.77.89/32', IPv6: 'fd75:7368:6572::2/128' } as const

/** Adds an address that is not in use, looks whether it bears the mark, and removes it. */
const probeKind = async (kind: AddressKind, run: RunTool): Promise<Probe> => {
  const cidr = spare[kind.family]
  try {
    const version = await run('ip', ['-V'])
    const detail = /iproute2-[^,\s]+/.exec(version)?.[0] ?? version.trim()
    const why = (await runIpBatch(run, [kind.add(cidr)])).get(0) ?? ''
    // Left by a probe that was killed, or of a probe at the same time.
    if (why !== '' && !/file exists|already assigned/i.test(why)) {
      return { usable: false, detail: `ip ${kind.add(cidr)}: ${why}` }
    }
    const listed = (await listOf(run, kind.list)).split('\n').map(kind.marked)
    await runIpBatch(run, [kind.remove(cidr)])
    if (listed.includes(cidr)) return { usable: true, detail }
    return {
      usable: false,
      detail: `${detail} or the kernel is too old to mark addresses as Usher's`,
    }
  } catch (error) {
    return { usable: false, detail: (error as Error).message }
  }
}
