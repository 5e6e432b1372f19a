import type { RuleTable, RuleTables } from '../../capture/rule-table.ts'
import { kernelLacks } from '../../kernel/kernel-lacks.ts'
import { ToolError } from '../../kernel/run-tool.ts'
import type { Log } from '../../observe/log.ts'
import { type IpFamily, ipFamilies } from '../../util/ip.ts'
import type { HostSystem } from './host-system.ts'

/**
 * What an Usher before this one may have left, which took another capture than `own`. What
 * can't be done is logged; where a tool is missing nothing was left by it.
 */
export const withOtherTables = async (
  { system, log }: { readonly system: HostSystem; readonly log: Log },
  own: string,
  work: (table: RuleTable) => Promise<void>,
): Promise<void> => {
  const others = [system.nftables, system.iptables].filter(({ name }) => name !== own)
  const one = async (tables: RuleTables, family: IpFamily): Promise<void> => {
    await work(tables.table(family)).catch((error: unknown) => {
      if (error instanceof ToolError && error.failure === 'missing') return
      if (kernelLacks(error)) return
      const why = (error as Error).message
      log.warn({ capture: tables.name, family, why }, 'old rules may still be there')
    })
  }
  // Clients wait meanwhile.
  await Promise.all(others.flatMap(tables => ipFamilies.map(each => one(tables, each))))
}
