import { type RunTool, ToolError } from '../run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { type Backend, type BackendMode, installedBackends, isBusy } from './backend.ts'
import { captureOwner } from './kube-chains.ts'
import { tableNow } from './table-now.ts'
import type { Probe } from '../probe.ts'

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
    if (error instanceof ToolError && error.failure !== 'timeout' && !isBusy(error))
      return false
    throw error
  }
}

export interface ProvenBackend {
  /** Whether one of the back ends that may be chosen works. Never rejects with ToolError. */
  readonly probe: (family: IpFamily) => Promise<Probe>
  /** The one that a probe has found to work; before one, the one to begin with. */
  readonly choose: (family: IpFamily) => Promise<ChosenBackend>
}

/** `attempt` rejects with ToolError when a back end can't have the rules there are to be. */
export const provenBackend = (
  run: RunTool,
  choice: BackendChoice,
  attempt: (backend: Backend, family: IpFamily) => Promise<void>,
): ProvenBackend => {
  const proven = new Map<IpFamily, BackendMode>()
  const choose = (family: IpFamily): Promise<ChosenBackend> =>
    chooseBackend(run, family, proven.get(family) ?? choice)
  const tryOne = async (backend: Backend, family: IpFamily): Promise<Probe> => {
    const { mode, detail } = backend
    try {
      await attempt(backend, family)
      proven.set(family, mode)
      return { usable: true, detail }
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      if (!isBusy(error)) return { usable: false, detail: error.message }
      // That passes, and what is chosen in its stead would be for good.
      proven.set(family, mode)
      return { usable: true, detail: `${detail}, not tried: ${error.message}` }
    }
  }
  const probe = async (family: IpFamily): Promise<Probe> => {
    const { chosen, others } = await chooseBackend(run, family, choice)
    const first = await tryOne(chosen, family)
    if (first.usable || choice !== 'auto') return first
    // Also one that is not the system's choice may be the one that works.
    for (const other of others) {
      const probed = await tryOne(other, family)
      if (probed.usable) return probed
    }
    return first
  }
  return {
    choose,
    probe: family =>
      probe(family).catch((error: unknown) => {
        if (error instanceof ToolError)
          return { usable: isBusy(error), detail: error.message }
        throw error
      }),
  }
}
