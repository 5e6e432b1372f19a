import type { RunTool } from '../run-tool.ts'
import type { AddressKind } from './address-kind.ts'
import type { Probe } from '../probe.ts'
import { listOf, runIpBatch } from './ip-tool.ts'

/** Beside the proxy addresses, so that those who have one never lose it by a probe. */
const spare = { IPv4: '169.254.77.89/32', IPv6: 'fd75:7368:6572::2/128' } as const

/** Adds an address that nobody uses, looks whether it bears the mark, and removes it. */
export const probeKind = async (kind: AddressKind, run: RunTool): Promise<Probe> => {
  const cidr = spare[kind.family]
  try {
    const version = await run('ip', ['-V'])
    const detail = /iproute2-[^,\s]+/.exec(version)?.[0] ?? version.trim()
    const why = (await runIpBatch(run, [kind.add(cidr)])).get(0) ?? ''
    // Left by a probe that was killed, or of a probe at the same time.
    if (why !== '' && !/file exists|already assigned/i.test(why)) {
      return { usable: false, detail: `ip ${kind.add(cidr)}: ${why}` }
    }
    const listed = (await listOf(run, kind.list)).split('\n').map(kind.marked)
    await runIpBatch(run, [kind.remove(cidr)])
    if (listed.includes(cidr)) return { usable: true, detail }
    return {
      usable: false,
      detail: `${detail} or the kernel is too old to mark addresses as Usher's`,
    }
  } catch (error) {
    return { usable: false, detail: (error as Error).message }
  }
}
