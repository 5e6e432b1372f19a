import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readlinkSync } from 'node:fs'
import { constants } from 'node:os'
import { type RunTool, runTool, toolEnv, ToolError } from '../../src/kernel/run-tool.ts'
import { endingSignals } from '../process/signals.ts'

/**
 * How network namespaces are made: `root` by privilege, `user` inside of an own user namespace,
 * with root's rights in it (user_namespaces(7)).
 */
export type SandboxKind = 'root' | 'user'

const words = (line: string): readonly string[] => line.split(' ')

/** Whether it may make namespaces and links of its own, or has this host's network. */
type SandboxNetwork = 'own' | 'host'

/**
 * Goes before a command line to run it in namespaces that end with the process that started
 * it, however that ends: setpriv has the kernel kill unshare then (PR_SET_PDEATHSIG),
 * --kill-child the same for the first process inside, and with that one, process 1 of its
 * namespace, all others go, and with them all mounts, network namespaces and links.
 */
export const sandboxCommand = (
  kind: SandboxKind,
  network: SandboxNetwork = 'own',
): readonly string[] => [
  ...words('setpriv --pdeathsig KILL'),
  ...words('unshare --mount --pid --fork --kill-child --mount-proc'),
  ...(kind === 'user' ? words('--user --map-root-user') : []),
  // Root makes namespaces beside the host's and enters them by name.
  ...(kind === 'user' && network === 'own' ? ['--net'] : []),
]

/** What makes /run the sandbox's own: named namespaces and iptables' lock are there. */
const mountRun: readonly string[] = words(
  'mount -t tmpfs -o mode=755,nosuid,nodev usher-bench /run',
)

/**
 * The environment variable that tells a process that it is in a sandbox: the kind, and the
 * mount namespace of the process that started it, which must differ from its own.
 */
const markerName = 'USHER_BENCH_SANDBOX'

/** Which sandbox works here; without a `kind`, `why` says in words why none does. */
type SandboxChoice =
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
    const first = error instanceof ToolError ? error.stderr.trim().split('\n')[0] : ''
    return first || (error instanceof Error ? error.message : String(error))
  }
}

const refusal = (asRoot: string, asUser: string): string =>
  process.getuid?.() === 0
    ? `as root: ${asRoot}; in a user namespace: ${asUser}`
    : `${asUser} (root can, or where user namespaces are allowed to users, such as by ` +
      'sysctl kernel.unprivileged_userns_clone=1 or ' +
      'kernel.apparmor_restrict_unprivileged_userns=0)'

/** That this process is in one; what needs to be in one asks for it. */
export interface Sandbox {
  readonly kind: SandboxKind
  /** Temporary files go there (also `os.tmpdir()`), and go with the sandbox. */
  readonly workDirectory: string
}

const workDirectory = '/run/usher-bench'

/** Whether `runInSandbox` has started this process; false again after `prepareSandbox`. */
export const isToBePrepared = (): boolean => process.env[markerName] !== undefined

/**
 * To be called first inside: from then on signals arrive as they do elsewhere, also those
 * sent before. Gives this process a /run of its own. Rejects, having mounted nothing,
 * when it is not in a sandbox of its own.
 */
export const prepareSandbox = async (run: RunTool = runTool): Promise<Sandbox> => {
  const kind = checkedKind()
  // Neither this process' children nor their children are to take it for theirs.
  delete process.env[markerName]
  listenToParent()
  const [command = '', ...args] = mountRun
  await run(command, args)
  // For proxies that go on as another user, too; only processes in here see it.
  mkdirSync(workDirectory, { mode: 0o755 })
  process.env['TMPDIR'] = workDirectory
  return { kind, workDirectory }
}

const checkedKind = (): SandboxKind => {
  const [kind, outside] = (process.env[markerName] ?? '').split(' ')
  if (kind !== 'root' && kind !== 'user')
    throw new Error(`not in a sandbox: ${markerName} is not set`)
  if (process.pid !== 1)
    throw new Error(`not in a sandbox: process ${process.pid}, should be 1`)
  if (readlinkSync('/proc/self/ns/mnt') === outside)
    throw new Error(
      'not in a sandbox: its mounts are those of the process that started it',
    )
  return kind
}

/** Signals come as messages, see `runInSandbox`; the end of the channel is the parent's. */
const listenToParent = (): void => {
  process.on('message', (message: { readonly signal?: unknown }) => {
    const signal = endingSignals.find(name => name === message.signal)
    if (signal === undefined) return
    // Process 1 is spared what ends every other process that has no handler.
    if (!process.emit(signal, signal)) process.exit(128 + constants.signals[signal])
  })
  process.on('disconnect', () => process.exit(128 + constants.signals.SIGHUP))
  process.channel?.unref()
}

interface SandboxOptions {
  /** What the program finds in its environment; by default that of this process. */
  readonly env?: NodeJS.ProcessEnv
  /** By default its own. */
  readonly network?: SandboxNetwork
}

/** After so many signals the sandbox is killed, without an orderly end. */
const signalsThatKill = 3

/**
 * Runs a Node program that calls `prepareSandbox` in a sandbox, with this process' input
 * and output, and resolves with its exit code (128 and the signal's number where one ended
 * it). SIGINT, SIGTERM and SIGHUP of this process reach it once each; the third of them
 * ends it at once. Rejects when it can't be started.
 */
export const runInSandbox = async (
  kind: SandboxKind,
  argv: readonly string[],
  { env = process.env, network = 'own' }: SandboxOptions = {},
): Promise<number> => {
  const [command = '', ...args] = [...sandboxCommand(kind, network), ...argv]
  const child = spawn(command, args, {
    // A session of its own: the terminal's signals reach this process only, which hands
    // them on. At a SIGHUP unshare would end, and everything with it.
    detached: true,
    // The channel carries signals: process 1 of a namespace does not get those that it has
    // no handler for yet (pid_namespaces(7)), and a message waits.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: {
      ...env,
      PATH: toolEnv()['PATH'],
      [markerName]: `${kind} ${readlinkSync('/proc/self/ns/mnt')}`,
    },
  })
  const stopForwarding = forwardSignals(child)
  try {
    return await exitCode(child)
  } finally {
    stopForwarding()
  }
}

const forwardSignals = (child: ChildProcess): (() => void) => {
  let count = 0
  const forward = (signal: (typeof endingSignals)[number]): void => {
    count += 1
    if (count >= signalsThatKill) child.kill('SIGKILL')
    // It has ended already when it can't be sent; its exit is on its way.
    else if (child.connected) child.send({ signal }, () => undefined)
  }
  for (const signal of endingSignals) process.on(signal, forward)
  return () => {
    for (const signal of endingSignals) process.off(signal, forward)
  }
}

const exitCode = (child: ChildProcess): Promise<number> =>
  new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']),
    )
  })
