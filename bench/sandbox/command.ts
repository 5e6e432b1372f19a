/**
 * How network namespaces are made: `root` by privilege, `user` inside of an own user namespace,
 * with root's rights in it (user_namespaces(7)).
 */
export type SandboxKind = 'root' | 'user'

const words = (line: string): readonly string[] => line.split(' ')

/** Whether it may make namespaces and links of its own, or has this host's network. */
export type SandboxNetwork = 'own' | 'host'

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
export const mountRun: readonly string[] = words(
  'mount -t tmpfs -o mode=755,nosuid,nodev usher-bench /run',
)

/**
 * The environment variable that tells a process that it is in a sandbox: the kind, and the
 * mount namespace of the process that started it, which must differ from its own.
 */
export const markerName = 'USHER_BENCH_SANDBOX'
