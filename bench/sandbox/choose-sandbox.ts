import { type RunTool, runTool, ToolError } from '../../src/kernel/run-tool.ts'
import { mountRun, sandboxCommand, type SandboxKind } from './command.ts'

/** Which sandbox works here; without a `kind`, `why` says in words why none does. */
export type SandboxChoice =
  | { readonly kind: SandboxKind; readonly why: '' }
  | { readonly kind: undefined; readonly why: string }

/** Debian's package of each program that it takes. */
const packages: Readonly<Record<string, string>> = {
  setpriv: 'util-linux',
  unshare: 'util-linux',
  mount: 'mount',
  ip: 'iproute2',
}

/** Some answer in milliseconds; a kernel module may have to be loaded first. */
const tryForMs = 10_000

/**
 * All that a topology is made of, so that whatever is forbidden here (by seccomp, AppArmor,
 * a limit of zero, a kernel without veth) is met here and not in the middle of it.
 */
const trial = [
  mountRun.join(' '),
  'ip netns add one',
  'ip netns add two',
  'ip -n one link add name one type veth peer name two netns two',
  'ip netns exec one true',
].join(' && ')

/**
 * Finds out whether namespaces can be made on this host, by making some: with the
 * privileges there are, else as an unprivileged user. Nothing of them stays. Never rejects.
 */
export const chooseSandbox = async (
  run: RunTool = runTool,
  platform: NodeJS.Platform = process.platform,
): Promise<SandboxChoice> => {
  if (platform !== 'linux') return no(`${platform} has no network namespaces`)
  const missing = await missingPrograms(run)
  if (missing.length > 0) return no(`not installed: ${missing.join(', ')}`)
  const asRoot = await sandboxProblem(run, 'root')
  if (asRoot === '') return { kind: 'root', why: '' }
  const asUser = await sandboxProblem(run, 'user')
  if (asUser === '') return { kind: 'user', why: '' }
  return no(`network namespaces can't be made here: ${refusal(asRoot, asUser)}`)
}

const no = (why: string): SandboxChoice => ({ kind: undefined, why })

const missingPrograms = async (run: RunTool): Promise<readonly string[]> => {
  const found = await Promise.all(
    Object.entries(packages).map(async ([program, packageName]) =>
      (await isMissing(run, program))
        ? [`${program} (Debian package ${packageName})`]
        : [],
    ),
  )
  return found.flat()
}

/** Busybox's are there, too, though they answer `-V` with an error. */
const isMissing = async (run: RunTool, program: string): Promise<boolean> => {
  try {
    await run(program, ['-V'], { timeoutMs: tryForMs })
    return false
  } catch (error) {
    return error instanceof ToolError && error.failure === 'missing'
  }
}

const sandboxProblem = async (run: RunTool, kind: SandboxKind): Promise<string> => {
  const [command = '', ...args] = sandboxCommand(kind)
  try {
    await run(command, [...args, '/bin/sh', '-c', trial], { timeoutMs: tryForMs })
    return ''
  } catch (error) {
    const words = error instanceof ToolError ? error.stderr.trim().split('\n')[0] : ''
    return words || (error instanceof Error ? error.message : String(error))
  }
}

const refusal = (asRoot: string, asUser: string): string =>
  process.getuid?.() === 0
    ? `as root: ${asRoot}; in a user namespace: ${asUser}`
    : `${asUser} (root can, or where user namespaces are allowed to users, such as by ` +
      'sysctl kernel.unprivileged_userns_clone=1 or ' +
      'kernel.apparmor_restrict_unprivileged_userns=0)'
