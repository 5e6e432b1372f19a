import { readFileSync } from 'node:fs'

/**
 * The soft limit on open files of this process (RLIMIT_NOFILE). Node itself raises it to
 * the hard limit when it starts; Usher never lowers it (kube-proxy set both limits to
 * 64 000 and so lowered a higher one). Infinity where the system has no such limit.
 */
export const openFileLimit = (): number => {
  const procText = readProcLimits()
  if (procText !== undefined) {
    const soft = /^Max open files\s+(\d+|unlimited)/m.exec(procText)?.[1]
    if (soft !== undefined) return soft === 'unlimited' ? Infinity : Number(soft)
  }
  // Elsewhere only the diagnostic report knows it. It takes some ms: once, at the start.
  const report = process.report.getReport() as unknown as {
    userLimits?: { open_files?: { soft: number | 'unlimited' } }
  }
  const soft = report.userLimits?.open_files?.soft
  return typeof soft === 'number' ? soft : Infinity
}

const readProcLimits = (): string | undefined => {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return undefined // Not Linux: the caller has another way.
  }
}
