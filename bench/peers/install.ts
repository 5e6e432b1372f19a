import { readFile, rm, writeFile } from 'node:fs/promises'
import { type RunTool, runTool, ToolError } from '../../src/kernel/run-tool.ts'
import { endingSignals } from '../process/signals.ts'

interface PeerPackage {
  readonly name: string
  /** Asks for it; fails where it is missing. */
  readonly check: (run: RunTool) => Promise<unknown>
  /** Services that would start at the system's next start. */
  readonly services: readonly string[]
}

const isPackage = (name: string) => async (run: RunTool) => {
  const status = await run('dpkg-query', ['-W', '-f', '${db:Status-Status}', name])
  if (status !== 'installed') throw new Error(`${name} is ${status}`)
}

/**
 * Other packages, and other ways to install, bring the same programs; Debian's would put
 * itself in the place of another nginx.
 */
const packages: readonly PeerPackage[] = [
  { name: 'haproxy', check: run => run('haproxy', ['-v']), services: ['haproxy'] },
  { name: 'nginx-light', check: run => run('nginx', ['-v']), services: ['nginx'] },
  { name: 'libnginx-mod-stream', check: isPackage('libnginx-mod-stream'), services: [] },
  // The program's own `-v` ends with an error.
  { name: 'wrk', check: run => run('sh', ['-c', 'command -v wrk']), services: [] },
]

const peerPackages = packages.map(({ name }) => name)

/** Services that come with a package; none for one that is not a peer's. */
const servicesOf = (name: string): readonly string[] =>
  packages.find(one => one.name === name)?.services ?? []

/** Those whose programs this system lacks, in the order in which they are to be installed. */
const missingPackages = async (run: RunTool): Promise<readonly string[]> => {
  const missing: string[] = []
  for (const { name, check } of packages) {
    try {
      await check(run)
    } catch {
      // Whatever is the matter with it, apt-get mends it or says why it can't.
      missing.push(name)
    }
  }
  return missing
}

/** 101: forbidden, see invoke-rc.d(8) and deb-systemd-invoke. */
const policyText = `#!/bin/sh
# Placed by "usher bench" while it installs packages whose services are not to start.
exit 101
`

/**
 * Does `what` while Debian's maintainer scripts are forbidden to start services: by a
 * policy-rc.d at `file`, which is removed at the end, whatever becomes of it. One that is
 * one of other origin stays as it is.
 */
const withoutServices = async (
  file: string,
  say: (line: string) => void,
  what: () => Promise<void>,
): Promise<void> => {
  if (!(await place(file))) {
    say(`${file} is there already, and decides whether services start.`)
    return what()
  }
  try {
    await what()
  } finally {
    await rm(file, { force: true })
  }
}

/** False when another's is there. One of ours that was left behind by a kill is ours. */
const place = async (file: string): Promise<boolean> => {
  try {
    await writeFile(file, policyText, { flag: 'wx', mode: 0o755 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return (await readFile(file, 'utf8')) === policyText
  }
}

/** What installing touches of the system. */
export interface PackageSystem {
  readonly run: RunTool
  readonly isRoot: boolean
  /** Where Debian's maintainer scripts ask whether they may start a service. */
  readonly policyFile: string
}

const thisSystem = (): PackageSystem => ({
  run: runTool,
  isRoot: process.getuid?.() === 0,
  policyFile: '/usr/sbin/policy-rc.d',
})

const timeoutMs = 5 * 60_000

/**
 * Installs what the bench can measure or use and is missing here: HAProxy, nginx with its
 * stream module, and wrk, from Debian's packages, and starts none of their services. One
 * that can't be installed does not keep the others out. What happens goes to `say`, in lines.
 * Rejects where there is no apt-get, without root, and after a signal.
 */
export const installPeers = async (
  say: (line: string) => void,
  system: PackageSystem = thisSystem(),
): Promise<void> => {
  await checkAptGet(system.run)
  const missing = await missingPackages(system.run)
  if (missing.length === 0) return say('Every peer is installed already.')
  if (!system.isRoot)
    throw new Error(
      `installing needs root: run apt-get install ${missing.join(' ')} as root`,
    )
  await runUninterrupted(say, signal =>
    withoutServices(system.policyFile, say, () =>
      installEach(missing, say, system.run, signal),
    ),
  )
}

const checkAptGet = async (run: RunTool): Promise<void> => {
  try {
    await run('apt-get', ['--version'])
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'missing')
      throw new Error(
        `there is no apt-get here to install with: Debian's packages are called ` +
          `${peerPackages.join(', ')}; install what your system has in their place`,
        { cause: error },
      )
    throw error
  }
}

const installEach = async (
  wanted: readonly string[],
  say: (line: string) => void,
  run: RunTool,
  signal: AbortSignal,
): Promise<void> => {
  say(`Installing ${wanted.join(', ')}.`)
  // Packages may be in lists that are there already.
  await tell(say, 'Lists of packages are as old as they were', () =>
    aptGet(run, ['update']),
  )
  for (const name of wanted) {
    signal.throwIfAborted()
    await tell(say, `${name} is left out`, async () => {
      await aptGet(run, ['install', '--no-install-recommends', name])
      say(`${name} is installed.`)
      await disableServices(name, say, run)
    })
  }
}

/** Of the package that has just come; one that was there before is left as it is. */
const disableServices = async (
  name: string,
  say: (line: string) => void,
  run: RunTool,
): Promise<void> => {
  for (const service of servicesOf(name))
    await tell(say, `${service} will start with the system`, () =>
      run('update-rc.d', [service, 'disable'], { timeoutMs }),
    )
}

/** Does it, and says why it could not be done. */
const tell = async (
  say: (line: string) => void,
  consequence: string,
  what: () => Promise<unknown>,
): Promise<void> => {
  try {
    await what()
  } catch (error) {
    say(`${consequence}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Asks nothing, keeps changed configuration files, and waits a while for another apt-get. */
const quietly =
  'DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet ' +
  '-o DPkg::Lock::Timeout=60 -o Dpkg::Options::=--force-confold'

const aptGet = (run: RunTool, args: readonly string[]): Promise<string> =>
  run('env', [...quietly.split(' '), ...args], { timeoutMs })

/**
 * Does what must not be left half done: a signal only aborts, so that it can stop at the
 * next good place, and clean up behind itself. Rejects after a signal.
 */
const runUninterrupted = async (
  say: (line: string) => void,
  what: (signal: AbortSignal) => Promise<void>,
): Promise<void> => {
  const interruption = new AbortController()
  const abort = (signal: NodeJS.Signals): void => {
    say(`${signal}: ending as soon as the package manager is done.`)
    interruption.abort(new Error(`interrupted by ${signal}`))
  }
  for (const signal of endingSignals) process.on(signal, abort)
  try {
    await what(interruption.signal)
    interruption.signal.throwIfAborted()
  } finally {
    for (const signal of endingSignals) process.off(signal, abort)
  }
}
