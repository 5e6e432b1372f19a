import type { IpFamily } from '../../util/ip.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { type Backend, isBusy } from '../xtables/backend.ts'
import { type Samples, takes, tryLines } from '../xtables/try-lines.ts'
import type { Snapshot } from '../../model/snapshot.ts'
import { sampleServicePorts } from '../probe.ts'
import { type KernelSettings, plainSettings } from '../proxier.ts'
import { tableNames } from '../xtables/wanted.ts'
import { fullRules } from './full-rules.ts'

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
    if (error instanceof ToolError && error.failure === 'failed') return false
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

/** All matches and targets of this mode. */
const sampleLines = (family: IpFamily, randomFully: boolean): Samples => {
  const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1'
  const features = { randomFully, conntrackLiberal: false, nfacct: false, sctp: true }
  const rules = fullRules(sampleOf(family, address), settingsOf(address), features)
  const samples: Record<string, readonly string[]> = { mangle: [] }
  for (const table of tableNames) {
    const lines = [
      ...rules[table],
      ...rules.jumps[table].map(({ line }) => ({ lines: [line] })),
    ]
    samples[table] = lines.flatMap(each => each.lines)
  }
  return samples
}

const settingsOf = (address: string): KernelSettings => ({
  ...plainSettings,
  localhostNodePorts: true,
  localDetector: { by: 'source', cidrs: [address] },
})

/** SCTP is found out apart. */
const sampleOf = (family: IpFamily, address: string): Snapshot => {
  const all = sampleServicePorts(family, address)
  const served = all.filter(({ protocol }) => protocol !== 'SCTP')
  const servicePorts = new Map(served.map(each => [each.key, each]))
  const check = { namespace: 'usher', serviceName: 'probe', port: 1, localReady: 0 }
  return { family, servicePorts, healthChecks: new Map([['usher/probe', check]]) }
}
