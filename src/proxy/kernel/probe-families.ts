import type { ProxierKind } from '../../kernel/proxier.ts'
import type { FamilyProbes } from '../../mode/choose-mode.ts'

/** One family after the other: their probes use the same tools and locks. */
export const probeFamilies = async (kind: ProxierKind): Promise<FamilyProbes> => ({
  IPv4: await kind.probe('IPv4'),
  IPv6: await kind.probe('IPv6'),
})
