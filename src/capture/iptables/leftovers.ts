import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import {
  type Backend,
  installedBackends,
  mayHaveRules,
  saveIfThere,
} from '../../kernel/xtables/backend.ts'
import { captureOwner } from '../../kernel/xtables/kube-chains.ts'
import { removeText } from '../../kernel/xtables/restore-text.ts'
import { readTable, type SavedTable } from '../../kernel/xtables/saved.ts'
import type { TableName } from '../../kernel/xtables/wanted.ts'
import { own } from './names.ts'
import { holdText } from './restore-text.ts'
import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'

const leftIn = async (backend: Backend, table: TableName): Promise<SavedTable> =>
  readTable(await saveIfThere(backend, table), table, captureOwner)

/** Clients who are led by rules that an earlier process has left wait, if there are any. */
export const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  for (const backend of await backendsHere(run, family)) {
    if (!(await mayHaveRules(run, backend, family))) continue
    const { chains } = await leftIn(backend, 'filter')
    if (chains.has(own.begin)) await backend.restore(await holdText(true))
  }
}

/**
 * Takes out all of Usher's chains and the jumps to them, by whichever back end they were
 * made; silent when there are none. Rejects with ToolError, also where it is not
 * permitted to look.
 */
export const removeEverywhere = async (run: RunTool, family: IpFamily): Promise<void> => {
  // What one back end can't do does not keep the rules of the other.
  const failures: unknown[] = []
  for (const backend of await backendsHere(run, family)) {
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
  const [nat, filter] = await Promise.all([
    leftIn(backend, 'nat'),
    leftIn(backend, 'filter'),
  ])
  // What leads to the proxy address goes first, and what keeps the silence there when no
  // client is led there any more.
  const leading = await removeText(nat, captureOwner)
  const silence = await removeText(filter, captureOwner)
  if (leading !== '') await backend.restore(leading)
  if (silence === '') return
  await forgetWaiting(run, family)
  await backend.restore(silence)
}

/** Where there is no iptables it has left nothing. */
const backendsHere = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly Backend[]> => {
  try {
    return await installedBackends(run, family)
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'missing') return []
    throw error
  }
}
