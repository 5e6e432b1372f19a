import type { IpFamily } from '../../util/ip.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { sampleLines } from './sample.ts'
import { isBusy, type Samples, takes, tryLines } from '../xtables/try-lines.ts'

/** Rejects with ToolError when a back end can't have all rules of this mode, with what is missing. */
export const tryBackend = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
): Promise<void> => {
  if (family === 'IPv6' && !(await hasIpv6(run)))
    throw new ToolError('the kernel has no IPv6', 'failed', '')
  try {
    const randomFully = await takes(backend, { nat: ['-j MASQUERADE --random-fully'] })
    await tryLines(backend, sampleLines(family, randomFully))
  } catch (error) {
    if (!(error instanceof ToolError) || isBusy(error)) throw error
    const missing = await missingParts(backend, family)
    const what =
      missing === '' ? error.message : `the kernel or iptables lacks ${missing}`
    throw new ToolError(`${backend.detail}: ${what}`, error.failure, error.stderr)
  }
}

/** A process may be without its network's IPv6, which iptables would not tell. */
const hasIpv6 = async (run: RunTool): Promise<boolean> => {
  try {
    await run('cat', ['/proc/net/if_inet6'])
    return true
  } catch (error) {
    if (error instanceof ToolError) return false
    throw error
  }
}

/** Of rules tried one by one, what is in none that works; '' when none does, or all do. */
const missingParts = async (backend: Backend, family: IpFamily): Promise<string> => {
  const isGood = (samples: Samples): Promise<boolean> =>
    tryLines(backend, samples).then(
      () => true,
      () => false,
    )
  const [good, bad] = [new Set<string>(), new Set<string>()]
  for (const [table, lines] of Object.entries(sampleLines(family, false))) {
    // Where there is no such table no line works, and each try costs two calls of the tool.
    if (!(await isGood({ [table]: [] }))) return ''
    for (const line of lines) {
      if (partsOf(line).every(part => good.has(part))) continue
      const parts = (await isGood({ [table]: [line] })) ? good : bad
      for (const part of partsOf(line)) parts.add(part)
    }
  }
  if (good.size === 0) return ''
  return [...bad].filter(part => !good.has(part)).join(', ')
}

/** `match recent`, `target REJECT`. */
const partsOf = (line: string): readonly string[] =>
  [...line.matchAll(/-([mj]) (\S+)/g)].map(
    ([, flag, name]) => `${flag === 'm' ? 'match' : 'target'} ${name}`,
  )
