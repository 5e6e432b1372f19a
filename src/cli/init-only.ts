import type { RunSettings } from '../config/run-settings.ts'
import { nodePortCidrsOfAnyNode } from '../kernel/node-port-cidrs.ts'
import { runTool } from '../kernel/run-tool.ts'
import { hostSysctls } from '../kernel/sysctls.ts'
import { chooseBackend } from '../kernel/xtables/choose-backend.ts'
import { applySysctl } from '../proxy/kernel/kernel-setup.ts'
import { onlineProcessors, wantedSysctls } from '../proxy/kernel/wanted-sysctls.ts'
import { type Io, visible } from './io.ts'
import { guardLocalnet } from '../kernel/iptables/restore-text.ts'

/** The rule before the setting, so that there is no moment without it. */
const writeGuard = async (): Promise<void> =>
  guardLocalnet((await chooseBackend(runTool, 'IPv4', 'auto')).chosen)

/**
 * `usher run --init-only`: what needs more privileges than carrying traffic does, as the
 * settings of the kernel's that rules rely on. 1 when one could not be set.
 */
export const initOnly = async (
  { mode, kernel, options }: Pick<RunSettings, 'mode' | 'kernel' | 'options'>,
  io: Io,
): Promise<number> => {
  const isUserspace = mode.mode === 'userspace'
  if (isUserspace && !['auto', 'nftables', 'iptables'].includes(options.capture)) {
    io.out(`nothing to prepare: capture ${options.capture} needs no kernel settings\n`)
    return 0
  }
  const sysctls = hostSysctls()
  const addresses = options.nodeportAddresses.flat()
  const wanted = wantedSysctls(kernel, {
    // What an empty mode takes where it can.
    mode: mode.mode === '' ? 'iptables' : mode.mode,
    cores: onlineProcessors(),
    nodePortCidrs: nodePortCidrsOfAnyNode(addresses),
  })
  let failures = 0
  const done = new Set<string>()
  for (const sysctl of wanted) {
    const { name, value, needs, guarded } = sysctl
    if (guarded === 'shut') continue
    if (needs !== undefined && !done.has(needs)) continue
    if (isUserspace && (await sysctls.read(name)) === undefined) {
      io.out(`${visible(name)}: this kernel has none, and userspace mode does without\n`)
      continue
    }
    try {
      if (guarded !== undefined) await writeGuard()
      const isSet = await applySysctl(sysctls, sysctl)
      done.add(name)
      io.out(
        isSet
          ? `${visible(name)} = ${value}\n`
          : `${visible(name)} is larger than ${value}, and stays\n`,
      )
    } catch (error) {
      failures += 1
      const reason = visible((error as Error).message)
      io.err(`usher run --init-only: ${visible(name)} stays as it is: ${reason}\n`)
    }
  }
  return failures === 0 ? 0 : 1
}
