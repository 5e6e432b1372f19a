import { iptablesKind } from '../../kernel/iptables/iptables-proxier.ts'
import { ipvsKind } from '../../kernel/ipvs/ipvs-proxier.ts'
import { nftablesKind } from '../../kernel/nftables/nftables-kind.ts'
import type { ProxierKind, ProxierObserver } from '../../kernel/proxier.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import { kernelModeNames } from '../../mode/mode.ts'
import type { Clock } from '../../util/clock.ts'
import { readIfThere } from '../../util/read-text.ts'
import { joinProbes, type Probe, probeFamilies } from '../../kernel/probe.ts'
import { type RunTool, runTool } from '../../kernel/run-tool.ts'
import { hostSysctls } from '../../kernel/sysctls.ts'

/** What a kind of proxier is made with. */
export interface KindDeps {
  readonly run: RunTool
  readonly observer: ProxierObserver
  readonly setSysctl: (name: string, value: string) => Promise<void>
}

type MakeKind = (deps: KindDeps) => ProxierKind

/** The kinds of proxier there are, as this host has them. */
export const kernelKinds = (
  clock: Clock,
  { ipvs }: KernelOptions,
): Readonly<Record<ProxierKind['name'], MakeKind>> => ({
  nftables: ({ run, observer }) => nftablesKind({ run, clock, observer }),
  ipvs: ({ run, observer, setSysctl }) =>
    ipvsKind({
      run,
      clock,
      observer,
      options: ipvs,
      read: readIfThere,
      setSysctl,
    }),
  iptables: ({ run, observer }) => iptablesKind({ run, clock, observer }),
})

/** Whether the kernel modes work here, for `usher check`. */
export const probeKernelModes = async (
  clock: Clock,
  options: KernelOptions,
): Promise<readonly (Probe & { readonly name: string })[]> => {
  const kinds = kernelKinds(clock, options)
  const found: (Probe & { readonly name: string })[] = []
  for (const name of kernelModeNames) {
    const kind = kinds[name]({
      run: runTool,
      observer: { restoreFailed: () => {}, failed: () => {} },
      setSysctl: (sysctl, value) => hostSysctls().set(sysctl, value),
    })
    const probes = await probeFamilies(family => kind.probe(family))
    found.push({ name, ...joinProbes(probes) })
  }
  return found
}
