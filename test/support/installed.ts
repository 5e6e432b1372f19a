import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Whether a program is on the PATH. */
export const isInstalled = (program: string): boolean =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .some(directory => existsSync(join(directory, program)))

/** Which of these programs are not on the PATH, in words; '' when all are. */
export const missingPrograms = (...programs: readonly string[]): string => {
  const missing = programs.filter(program => !isInstalled(program))
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : ''
}
