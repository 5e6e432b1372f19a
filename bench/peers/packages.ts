import type { RunTool } from '../../src/kernel/run-tool.ts'

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

export const peerPackages = packages.map(({ name }) => name)

/** Services that come with a package; none for one that is not a peer's. */
export const servicesOf = (name: string): readonly string[] =>
  packages.find(one => one.name === name)?.services ?? []

/** Those whose programs this system lacks, in the order in which they are to be installed. */
export const missingPackages = async (run: RunTool): Promise<readonly string[]> => {
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
