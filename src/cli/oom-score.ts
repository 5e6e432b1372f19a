import { writeFile } from 'node:fs/promises'
import type { Log } from '../observe/log.ts'

/**
 * How gladly the kernel ends this process when memory is short; see proc(5). To lower it
 * takes CAP_SYS_RESOURCE, which few containers have: that is no reason not to serve.
 */
export const setOomScore = async (score: number, log: Log): Promise<void> => {
  try {
    await writeFile('/proc/self/oom_score_adj', String(score))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    log.debug({ score, reason }, 'the OOM score stays as it is')
  }
}
