import { ipFamilies, type IpFamily } from '../util/ip.ts'

/** Whether something works here, found out by really doing it. */
export interface Probe {
  readonly usable: boolean
  /** Why not, naming what is missing; or by what, as in `nft 1.0.6`. */
  readonly detail: string
}

export type FamilyProbes = Readonly<Record<IpFamily, Probe>>

/** One family after the other: their probes use the same tools and locks. */
export const probeFamilies = async (
  probe: (family: IpFamily) => Promise<Probe>,
): Promise<FamilyProbes> => ({ IPv4: await probe('IPv4'), IPv6: await probe('IPv6') })

/** Of what needs nothing that could be missing. */
export const anywhere: FamilyProbes = {
  IPv4: { usable: true, detail: '' },
  IPv6: { usable: true, detail: '' },
}

export const whyUnusable = (probes: FamilyProbes): ReadonlyMap<IpFamily, string> =>
  new Map(
    ipFamilies
      .filter(family => !probes[family].usable)
      .map(family => [family, probes[family].detail]),
  )

/** One answer for both families: what works in one is worth having. */
export const joinProbes = ({ IPv4, IPv6 }: FamilyProbes): Probe => {
  if (IPv4.usable === IPv6.usable) {
    const same = IPv4.detail === IPv6.detail
    const detail = same ? IPv4.detail : `${IPv4.detail}; IPv6: ${IPv6.detail}`
    return { usable: IPv4.usable, detail }
  }
  const detail = IPv4.usable
    ? `${IPv4.detail}; not for IPv6: ${IPv6.detail}`
    : `${IPv6.detail}; not for IPv4: ${IPv4.detail}`
  return { usable: true, detail }
}
