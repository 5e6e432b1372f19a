import { mkdir, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'

/** A new directory for the files of one target; it removes it when it stops. */
export const targetDirectory = async (
  workDir: string,
  target: string,
): Promise<string> => {
  await mkdir(workDir, { recursive: true })
  return mkdtemp(join(workDir, `${target}-`))
}

const mostShown = 8000

/** As much of a configuration as a report shows: that of 10 000 services is all alike. */
export const shownPart = (config: string): string => {
  if (config.length <= mostShown) return config
  const end = config.lastIndexOf('\n', mostShown) + 1
  const left = config.slice(end).split('\n').length
  return `${config.slice(0, end)}... and ${left} lines more, alike\n`
}
