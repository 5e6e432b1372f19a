import type { RememberedSysctl, Sysctls } from '../sysctls.ts'
import { ToolError } from '../run-tool.ts'
import type { Kind, Leftover } from './leftover.ts'

/** Settings of the kernel's that are still as Usher has set them, but for those of `keeps`. */
export const sysctlsKind = (
  sysctls: Sysctls,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'sysctls',
  find: async () => {
    const all = await sysctls.remembered()
    const leftovers = all.filter(({ name }) => !keeps(name)).map(one => put(sysctls, one))
    return { leftovers, stays: [] }
  },
})

const put = (sysctls: Sysctls, sysctl: RememberedSysctl): Leftover => ({
  stage: 'leads',
  what: [`setting ${sysctl.name} = ${sysctl.set}, which goes back to ${sysctl.before}`],
  remove: async () => {
    try {
      await sysctls.putBack(sysctl)
    } catch (error) {
      const why = (error as Error).message
      throw new ToolError(`${sysctl.name} can't be written: ${why}`, 'failed', why)
    }
    return []
  },
})
