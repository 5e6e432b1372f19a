import { iptablesKind } from '../../kernel/iptables/iptables-kind.ts'
import { ipvsKind } from '../../kernel/ipvs/ipvs-kind.ts'
import type { ProxierKind } from '../../kernel/proxier.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import type { Clock } from '../../util/clock.ts'
import type { KindDeps } from './kernel-step.ts'
import { readIfThere } from '../../util/read-if-there.ts'

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
