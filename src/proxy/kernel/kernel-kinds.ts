import { iptablesKind } from '../../kernel/iptables/iptables-kind.ts'
import { ipvsKind } from '../../kernel/ipvs/ipvs-kind.ts'
import type { ProxierKind, ProxierObserver } from '../../kernel/proxier.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import type { Clock } from '../../util/clock.ts'
import { readIfThere } from '../../util/read-text.ts'
import type { FamilyProbes } from '../../mode/choose-mode.ts'
import { joinProbes } from '../../capture/choose-capture.ts'
import type { Probe } from '../../kernel/probe.ts'
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

/** One family after the other: their probes use the same tools and locks. */
export const probeFamilies = async (kind: ProxierKind): Promise<FamilyProbes> => ({
  IPv4: await kind.probe('IPv4'),
  IPv6: await kind.probe('IPv6'),
})

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
