import { kernelLacks } from '../../kernel/kernel-lacks.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import {
  type Backend,
  installedBackends,
  mayHaveRules,
} from '../../kernel/xtables/backend.ts'
import { forgetWaiting } from '../forget-proxy-flows.ts'
import { removeText, type Saved } from './restore-text.ts'
import { savedBy } from './saved-by.ts'

/**
 * Takes out all of Usher's chains and the jumps to them, by whichever back end they were
 * made; silent when there are none. Rejects with ToolError, also where it is not
 * permitted to look.
 */
export const removeEverywhere = async (run: RunTool, family: IpFamily): Promise<void> => {
  let all: readonly Backend[]
  try {
    all = await installedBackends(run, family)
  } catch (error) {
    // Where there is no iptables it has left nothing.
    if (error instanceof ToolError && error.failure === 'missing') return
    throw error
  }
  // What one back end can't do does not keep the rules of the other.
  const failures: unknown[] = []
  for (const backend of all) {
    await removeBy(run, backend, family).catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

export const removeBy = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
): Promise<void> => {
  if (!(await mayHaveRules(run, backend, family))) return
  const saved = await savedOrNothing(backend)
  if (saved === undefined) return
  // What leads to the proxy address goes first, and what keeps the silence there when nobody
  // is led there any more.
  const [leading, silence] = [removeText(saved, 'nat'), removeText(saved, 'filter')]
  if (leading !== '') await backend.restore(leading)
  if (silence === '') return
  await forgetWaiting(run, family)
  await backend.restore(silence)
}

/** A kernel that knows no such tables has no rules in them. */
const savedOrNothing = async (backend: Backend): Promise<Saved | undefined> => {
  try {
    return await savedBy(backend)
  } catch (error) {
    if (kernelLacks(error)) return undefined
    throw error
  }
}
