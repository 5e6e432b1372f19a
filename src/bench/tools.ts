import { runTool, ToolError } from '../kernel/run-tool.ts'
import type { HttpGenerator } from './load/question.ts'
import { nginxProgram } from './targets/nginx.ts'
import { whyNoProgram } from './targets/program.ts'

/** What the load is made with and goes to: Debian's programs where they are installed. */
export interface Tools {
  readonly generator: HttpGenerator
  readonly backend: 'nginx' | 'own'
}

export const chooseTools = async (): Promise<Tools> => ({
  generator: (await wrkIsInstalled()) ? 'wrk' : 'own',
  backend: (await whyNoProgram(nginxProgram)) === '' ? 'nginx' : 'own',
})

/** It tells its version, and ends with code 1. */
const wrkIsInstalled = async (): Promise<boolean> => {
  try {
    await runTool('wrk', ['-v'])
    return true
  } catch (error) {
    return error instanceof ToolError && error.failure === 'failed'
  }
}
