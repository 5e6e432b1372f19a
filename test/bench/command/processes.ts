import { readFileSync } from 'node:fs'
import { isThere } from '../../../bench/process/signals.ts'
import { processTree } from '../../../bench/process/usage.ts'

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** A process with its descendants as they are now, to see later which of them still run. */
export const family = (pid: number) => {
  const members = processTree(pid)
  return {
    size: members.length,
    alive: () => members.filter(isThere),
    /** The first that runs a program with such a path. */
    running: (program: string) => members.find(one => commandOf(one).includes(program)),
  }
}
