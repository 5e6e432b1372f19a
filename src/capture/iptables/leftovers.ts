import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { type Backend, installedBackends } from '../../kernel/xtables/backend.ts'
import { captureOwner } from '../../kernel/xtables/kube-chains.ts'
import { takeOutAll } from '../../kernel/xtables/restore-text.ts'
import type { SavedTable } from '../../kernel/xtables/saved.ts'
import { tableNow } from '../../kernel/xtables/table-now.ts'
import type { TableName } from '../../kernel/xtables/wanted.ts'
import { jumps, own } from '../../kernel/xtables/capture-names.ts'
import { holdText } from './restore-text.ts'
import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'

/** What a process before this one has left in one table, or this one has there. */
export const capturedIn = (backend: Backend, table: TableName): Promise<SavedTable> =>
  tableNow(backend, table, captureOwner, jumps[table])

/** Clients who are led by rules that an earlier process has left wait, if there are any. */
export const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  for (const backend of await backendsHere(run, family)) {
    const { chains } = await capturedIn(backend, 'filter')
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
  const [nat, filter] = [
    await capturedIn(backend, 'nat'),
    await capturedIn(backend, 'filter'),
  ]
  // What leads to the proxy address goes first, and what keeps the silence there when no
  // client is led there any more.
  const stayed = [...(await takeOutAll(backend, nat, captureOwner))]
  if (filter.chains.size > 0) {
    await forgetWaiting(run, family)
    stayed.push(...(await takeOutAll(backend, filter, captureOwner)))
  }
  if (stayed.length > 0) {
    const text = `chains ${stayed.join(', ')} are emptied, but stay: a rule leads there that ${backend.detail} can't read`
    throw new ToolError(text, 'failed', '')
  }
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
