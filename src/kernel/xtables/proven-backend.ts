import type { IpFamily } from '../../util/ip.ts'
import type { Probe } from '../probe.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { type Backend, type BackendMode, isPassing } from './backend.ts'
import {
  type BackendChoice,
  type ChosenBackend,
  chooseBackend,
} from './choose-backend.ts'

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
      if (!isPassing(error)) return { usable: false, detail: error.message }
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
          return { usable: isPassing(error), detail: error.message }
        throw error
      }),
  }
}
