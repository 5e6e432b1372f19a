import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Bpf } from '../bpf/bpf.ts'

/** BPF_CGROUP_INET4_CONNECT */
const connect4 = 10

/** Cilium's programs before 1.12 and since then, as far as the kernel keeps their names. */
const ciliumPrograms: ReadonlySet<string> = new Set(['sock4_connect', 'cil_sock4_conne'])
/** Where it keeps the link of that one since 1.14. */
const ciliumLink = 'cilium/socketlb/links/cgroup/cil_sock4_connect'

/**
 * Why another program that leads clients of Services is at the same hook, which would see endpoints
 * where Usher was first, or the other way round; '' for none. Others (systemd's, firewalls') run beside.
 */
export const whoElseLeads = (bpf: Bpf, cgroup: string, bpffs: string): string => {
  const said =
    "Cilium's socket load balancing leads clients here (kubeProxyReplacement or socketLB of its Helm chart): only one of both can"
  if (existsSync(join(bpffs, ciliumLink))) return said
  const folder = openSync(cgroup, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const programs = bpf.programsAt(folder, connect4)
    return programs.some(id => ciliumPrograms.has(nameOf(bpf, id))) ? said : ''
  } finally {
    closeSync(folder)
  }
}

/** Without CAP_SYS_ADMIN nothing has a name. */
const nameOf = (bpf: Bpf, id: number): string => {
  try {
    return bpf.programName(id) ?? ''
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPERM') return ''
    throw error
  }
}
