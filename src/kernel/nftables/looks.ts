import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { affinitySetOf } from './compile.ts'
import { boundClients, type Look } from '../proxier.ts'
import { compile } from './compile.ts'
import type { Context } from './compile.ts'

/** By what is written: entries of maps that a packet to the VIP is looked up in, and chains they lead to. */
export const nftablesLooks = (
  table: string,
  servicePort: ServicePort,
  vip: Vip,
  context: Context,
): readonly Look[] => {
  const { elements, parts } = compile({ ...servicePort, vips: [vip] }, context)
  // Others are slots of endpoints, which the chain draws from.
  const entries = elements.filter(({ value }) => /^(?:goto |drop$)/.test(value))
  const chains = new Set(entries.map(({ value }) => value.replace('goto ', '')))
  const sets = parts.flatMap(({ name }) => affinitySetOf(name) ?? [])
  return [
    ...entries.map(({ set, key, value }) => ({
      what: `map ${set}, ${key} : ${value}`,
      command: `nft get element ${table} ${set} '{ ${key} }'`,
    })),
    ...[...chains]
      .filter(chain => chain !== 'drop')
      .map(chain => ({
        what: `chain ${chain}`,
        command: `nft list chain ${table} '${chain}'`,
      })),
    ...[...new Set(sets)].map(set => ({
      what: `${boundClients}: set ${set}`,
      command: `nft list set ${table} '${set}'`,
    })),
  ]
}
