import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Whether a program is on the PATH. */
export const isInstalled = (program: string): boolean =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .some(directory => existsSync(join(directory, program)))
