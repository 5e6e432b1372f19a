import { isOwnJump } from '../cleanup/kube-chains.ts'
import { kernelLacks } from '../kernel-lacks.ts'
import type { RunTool } from '../run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { type Backend, mayHaveRules } from '../xtables/backend.ts'
import { emptied } from './chain.ts'
import { isModeChain } from './names.ts'
import { readSaved } from './saved.ts'

/**
 * Takes this mode's chains out of a back end that another process wrote by, and the jumps
 * to them. A chain that a rule of somebody else's leads to is emptied only.
 */
export const removeBy = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
  options: { readonly timeoutMs: number },
): Promise<void> => {
  if (!(await mayHaveRules(run, backend, family))) return
  for (const table of ['nat', 'filter', 'mangle'] as const) {
    const text = await saveOrNothing(backend, table, options)
    const { chains, rules, builtIn } = await readSaved(text, table)
    const mine = [...chains].filter(chain => isModeChain(table, chain))
    if (mine.length === 0) continue
    const isJump = (rule: (typeof rules)[number]): boolean =>
      builtIn.has(rule.chain) && isModeChain(table, rule.target) && isOwnJump(rule)
    const led = new Set(rules.filter(rule => !isJump(rule)).map(rule => rule.target))
    const lines = [
      ...mine.map(emptied),
      ...rules.filter(isJump).map(rule => `-D ${rule.text}`),
      ...mine.filter(chain => !led.has(chain)).map(chain => `-X ${chain}`),
    ]
    await backend.restore(`*${table}\n${lines.join('\n')}\nCOMMIT\n`, options)
  }
}

/** A kernel that knows no such tables has no rules in them. */
const saveOrNothing = async (
  backend: Backend,
  table: string,
  options: { readonly timeoutMs: number },
): Promise<string> => {
  try {
    return await backend.save(table, options)
  } catch (error) {
    if (kernelLacks(error)) return ''
    throw error
  }
}
