import { joinProbes } from '../../capture/choose-capture.ts'
import type { Probe } from '../../kernel/probe.ts'
import { runTool } from '../../kernel/run-tool.ts'
import { hostSysctls } from '../../kernel/sysctls.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import type { Clock } from '../../util/clock.ts'
import { kernelKinds } from './kernel-kinds.ts'
import { probeFamilies } from './probe-families.ts'

/** Whether the kernel modes can be had here, for `usher check`. */
export const probeKernelModes = async (
  clock: Clock,
  options: KernelOptions,
): Promise<readonly (Probe & { readonly name: string })[]> => {
  const kinds = kernelKinds(clock, options)
  const found: (Probe & { readonly name: string })[] = []
  for (const name of ['ipvs', 'iptables'] as const) {
    const kind = kinds[name]({
      run: runTool,
      observer: { restoreFailed: () => {}, failed: () => {} },
      setSysctl: (sysctl, value) => hostSysctls().set(sysctl, value),
    })
    const { IPv4, IPv6 } = await probeFamilies(kind)
    found.push({ name, ...joinProbes(IPv4, IPv6) })
  }
  return found
}
