import { execFile } from 'node:child_process'
import type { HttpGenerator } from './load/question.ts'
import { nginx, programProblem } from './targets/program.ts'

/** What the load is made with and goes to: Debian's programs where they are installed. */
export interface Tools {
  readonly generator: HttpGenerator
  readonly backend: 'nginx' | 'own'
  /** '' where it isn't installed. */
  readonly wrkVersion: string
}

export const chooseTools = async (): Promise<Tools> => {
  const wrkVersion = await versionOfWrk()
  return {
    generator: wrkVersion === '' ? 'own' : 'wrk',
    backend: (await programProblem(nginx)) === '' ? 'nginx' : 'own',
    wrkVersion,
  }
}

/** It tells its version among other things, and ends with code 1. */
const versionOfWrk = (): Promise<string> =>
  new Promise(resolve => {
    execFile('wrk', ['-v'], { timeout: 5000 }, (_, stdout, stderr) =>
      resolve(/wrk\s+\S*?(\d+(?:\.\d+)+)/.exec(stdout + stderr)?.[1] ?? ''),
    )
  })
