import { existsSync, rmSync } from 'node:fs'
import { messageOf } from '../../util/usher-error.ts'
import { pinsFolder } from '../bpf/pins.ts'
import { ToolError } from '../run-tool.ts'
import type { Kind } from './clean-up.ts'

/** Programs that lead clients as they connect, with their tables: they go with their files. */
export const connectTimeKind = (bpffs: string): Kind => {
  const folder = pinsFolder(bpffs)
  const leftover = {
    stage: 'leads',
    what: [`connect-time steering, kept in ${folder}`],
    remove: async () => {
      try {
        rmSync(folder, { recursive: true })
      } catch (error) {
        const reason = messageOf(error)
        throw new ToolError(`${folder} can't be removed: ${reason}`, 'failed', reason)
      }
      return []
    },
  } as const
  return {
    name: 'connect-time steering',
    find: async () => ({
      leftovers: existsSync(folder) ? [leftover] : [],
      stays: [],
    }),
  }
}
