import { type RunTool, ToolError } from '../run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import {
  type Backend,
  type BackendMode,
  installedBackends,
  isPassing,
} from './backend.ts'
import { captureOwner } from './kube-chains.ts'
import { tableNow } from './table-now.ts'

export type BackendChoice = BackendMode | 'auto'

export interface ChosenBackend {
  readonly chosen: Backend
  readonly others: readonly Backend[]
}

/**
 * `auto` takes the system's own choice, unless others of Kubernetes write by the other
 * one: rules of both are in force at once, and what one accepts the other may drop. So
 * does upstream's iptables-wrapper. Rejects with ToolError when there is none.
 */
export const chooseBackend = async (
  run: RunTool,
  family: IpFamily,
  choice: BackendChoice,
): Promise<ChosenBackend> => {
  const all = await installedBackends(run, family)
  const chosen =
    choice === 'auto' ? await usedByOthers(all) : all.find(({ mode }) => mode === choice)
  if (chosen === undefined) {
    const have = all.map(({ detail }) => detail).join(', ')
    const text = `no iptables of the kind "${choice}" is installed, only: ${have}`
    throw new ToolError(text, 'missing', '')
  }
  return { chosen, others: all.filter(backend => backend !== chosen) }
}

const usedByOthers = async (all: readonly Backend[]): Promise<Backend | undefined> => {
  if (all.length < 2) return all[0]
  // kubelet's own chains are made for this; it says which one the node uses.
  for (const sign of [kubelet, ofKubernetes])
    for (const backend of all) if (await hasChain(backend, sign)) return backend
  return all[0]
}

const kubelet = { table: 'mangle', chain: /^KUBE-(?:IPTABLES-HINT|KUBELET-CANARY)$/ }
/** Of kube-proxy or kubelet; chains of Usher don't count. */
const ofKubernetes = { table: 'nat', chain: /^KUBE-(?!USHER-|PORTALS-|NODEPORT-)/ }

const hasChain = async (
  backend: Backend,
  { table, chain }: typeof kubelet,
): Promise<boolean> => {
  try {
    const { chains } = await tableNow(backend, table, captureOwner, [])
    return [...chains.keys()].some(name => chain.test(name))
  } catch (error) {
    // A kernel without it has no rules of it; that it can't be used is found by `probe`.
    if (error instanceof ToolError && !isPassing(error)) return false
    throw error
  }
}
