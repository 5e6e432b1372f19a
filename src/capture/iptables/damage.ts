import type { Backend } from '../../kernel/xtables/backend.ts'
import { damageIn } from '../../kernel/xtables/damage.ts'
import { captureOwner } from '../../kernel/xtables/kube-chains.ts'
import { type TableName, tableNames } from '../../kernel/xtables/wanted.ts'
import type { Ledger } from './ledger.ts'
import { jumps, named, own } from './names.ts'

/**
 * What is wrong with Usher's jumps and first chains, or `whole`: whether all chains have as
 * many rules as they should; '' for nothing. Rejects with ToolError when nothing can be read.
 */
export const damageOf = (
  backend: Backend,
  ledger: Ledger,
  whole: boolean,
): Promise<string> => {
  const expected = tableNames.map(name => ({
    name,
    jumps: jumps[name],
    chains: Array.from(whole ? ledger.chains(name) : firstChains[name], chain => ({
      name: chain,
      rules: ledger.size(name, chain) ?? 0,
    })),
  }))
  return damageIn(backend, captureOwner, expected, whole)
}

/** Those that packets come to first; the parts of long ones are behind them. */
const firstChains: Readonly<Record<TableName, readonly string[]>> = {
  filter: [
    named.nonLocal,
    own.input,
    own.begin,
    own.output,
    own.silence,
    own.refused,
    own.refusedNodePorts,
    own.reject,
  ],
  nat: [
    named.portalsContainer,
    named.portalsHost,
    named.nodePortContainer,
    named.nodePortHost,
    own.portals,
    own.nodePorts,
    own.ofNode,
    own.nodePortsOfNode,
  ],
}
