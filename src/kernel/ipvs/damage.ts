import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { Backend } from '../xtables/backend.ts'
import { damageIn } from '../xtables/damage.ts'
import type { Unreadable } from '../xtables/unreadable.ts'
import { deviceName, readAddresses } from './device.ts'
import type { IpvsDeps } from './ipvs-deps.ts'
import type { KnownState } from './known-state.ts'
import { type Loads, readLoads } from './proc-ip-vs.ts'
import { deviceIndex } from './read-kernel.ts'
import { ipvsOwner, type RuleTable } from './rules.ts'
import { setDamage, setSizes } from './saved.ts'

/** What a sync has left in the kernel. */
export interface Installed {
  readonly family: IpFamily
  readonly backend: Backend
  readonly tables: readonly RuleTable[]
  readonly known: KnownState
  readonly deviceIndex: string
}

/** Of all virtual servers of the network namespace. */
export const loadsNow = async ({ read }: Pick<IpvsDeps, 'read'>): Promise<Loads> =>
  readLoads((await read('/proc/net/ip_vs')) ?? '')

/**
 * What is missing of it, in a few words; '' for nothing. `whole`: addresses too, which
 * take 50 ms where there are 10 000.
 */
export const damageOf = async (
  deps: IpvsDeps,
  installed: Installed,
  unreadable: Unreadable,
  whole: boolean,
): Promise<string> => {
  const { known, family } = installed
  if ((await deviceIndex(deps)) !== installed.deviceIndex)
    return `device ${deviceName} is gone, or another one`
  return (
    (await serverDamage(await loadsNow(deps), known)) ||
    (await rulesDamage(installed, unreadable, whole)) ||
    setDamage(setSizes(await deps.run('ipset', ['list', '-t'])), known.sets, family) ||
    (whole ? await addressDamage(deps, installed) : '')
  )
}

const serverDamage = async (loads: Loads, { servers }: KnownState): Promise<string> => {
  let wrong = ''
  await forEachYielding(servers, ([id, { destinations }]) => {
    const there = loads.get(id)
    if (there === undefined) wrong ||= `virtual server ${id} is gone`
    for (const [destination, weight] of destinations)
      if (there?.get(destination)?.weight !== weight)
        wrong ||= `destination ${destination} of virtual server ${id} is gone or has another weight`
  })
  return wrong
}

const rulesDamage = (
  { backend, tables }: Installed,
  unreadable: Unreadable,
  lists: boolean,
): Promise<string> => {
  const expected = tables.map(({ name, jumps, chains }) => ({
    name,
    jumps,
    chains: chains.map(chain => ({ name: chain.name, rules: chain.lines.length })),
  }))
  return damageIn(backend, ipvsOwner, expected, unreadable, { lists })
}

const addressDamage = async (
  { run }: IpvsDeps,
  { family, known }: Installed,
): Promise<string> => {
  const { own } = await readAddresses(run, family)
  const missing = [...known.addresses].find(address => !own.has(address))
  return missing === undefined ? '' : `address ${missing} on ${deviceName} is gone`
}
