import { readFileSync } from 'node:fs'

/** What the kernel books connections on, in kB; it counts for the whole machine. */
const kernelFields = ['Slab', 'PageTables', 'KernelStack'] as const

/**
 * Memory that the kernel uses for itself, by /proc/meminfo and, for what sockets hold
 * beyond their own size, /proc/net/sockstat (proc(5)). Undefined where there is no /proc.
 */
export const kernelBytes = (): number | undefined => {
  const meminfo = readText('/proc/meminfo')
  if (meminfo === undefined) return undefined
  let bytes = 0
  for (const field of kernelFields) bytes += kilobytesOf(meminfo, field)
  return bytes + tcpPages() * pageBytes()
}

const kilobytesOf = (text: string, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024

const tcpPages = (): number =>
  Number(/^TCP: .*\bmem (\d+)/m.exec(readText('/proc/net/sockstat') ?? '')?.[1] ?? 0)

/** Not 4096 everywhere (arm64). */
const pageBytes = (): number =>
  kilobytesOf(readText('/proc/self/smaps') ?? '', 'KernelPageSize') || 4096

const readText = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
