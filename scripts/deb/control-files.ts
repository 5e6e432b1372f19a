import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** Whoever gives out a package names himself: DEBFULLNAME and DEBEMAIL, as Debian's tools have them. */
export const maintainer = `${process.env['DEBFULLNAME'] ?? 'Usher maintainers'} <${process.env['DEBEMAIL'] ?? 'maintainers@usher-proxy.io'}>`

const control = (architecture: string, version: string, kilobytes: number): string =>
  `Package: usher
Version: ${version}
Architecture: ${architecture}
Maintainer: ${maintainer}
Installed-Size: ${kilobytes}
Depends: nodejs (>= 20.18), libc6
Recommends: nftables, iptables, iproute2, conntrack
Suggests: ipset, ipvsadm
Section: net
Priority: optional
Description: layer-4 load-balancing proxy for Kubernetes Services
 Usher takes the place of kube-proxy on a node: it carries the TCP and UDP
 traffic of Services itself, and tries another endpoint when one refuses, or
 programs the kernel by nftables, iptables or ipvs.
 .
 As a sidecar it proxies a few fixed routes, such as the way to a database,
 with health checks, tiers and retries.
`

/** What dpkg goes by, for a tree that is complete. */
export const controlFiles = async (
  tree: string,
  { architecture, version }: { readonly architecture: string; readonly version: string },
): Promise<void> => {
  const shell = (command: string) =>
    execute('sh', ['-c', command], { cwd: tree, maxBuffer: 64 * 1024 * 1024 })
  // Whatever the umask, and the modes in node_modules.
  await shell(
    'chmod -R u=rwX,go=rX . && find . -type f -not -path ./usr/lib/usher/dist/usher.js -exec chmod 644 {} +',
  )
  const size = await shell('du -sk --apparent-size . | cut -f1')
  const sums = await shell(
    'find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum',
  )
  const folder = join(tree, 'DEBIAN')
  await mkdir(folder, { mode: 0o755 })
  await writeFile(
    join(folder, 'control'),
    control(architecture, version, Number(size.stdout)),
  )
  await writeFile(join(folder, 'md5sums'), sums.stdout)
  await writeFile(join(folder, 'conffiles'), '/etc/usher/usher.env\n')
}
