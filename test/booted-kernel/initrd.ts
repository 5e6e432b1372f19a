import { readFile } from 'node:fs/promises'
import { cpio } from './cpio.ts'

export interface Boot {
  /** Paths of kernel modules, in the order in which they load. */
  readonly modules: readonly string[]
  /** What runs once the machine is up: paths of the host's. */
  readonly command: readonly string[]
}

/** The host's folders that are empty and writable in the machine. */
const writable = ['mnt', 'run']

/**
 * The first root of the machine: busybox, the modules without which it can't see the
 * host, and a script that mounts the host's root, read-only, and runs `command` in it.
 */
export const initrd = async ({ modules, command }: Boot): Promise<Buffer> =>
  cpio([
    ...['bin', 'modules', 'host', 'proc', 'sys', 'dev'].map(path => ({ path })),
    { path: 'bin/busybox', content: await readFile('/bin/busybox') },
    { path: 'init', content: Buffer.from(initScript(command)) },
    ...(await Promise.all(
      modules.map(async (path, index) => ({
        path: `modules/${String(index).padStart(2, '0')}.ko`,
        content: await readFile(path),
      })),
    )),
  ])

/**
 * The kernel finds no program to load modules with: what it lacks stays lacking until a
 * test loads it. 9p caches what it read (`loose`): nothing else writes to the host's files.
 */
const initScript = (command: readonly string[]): string => `#!/bin/busybox sh
/bin/busybox --install -s /bin
end() { echo "$*"; poweroff -f; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# As udev makes them.
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
for module in /modules/*; do insmod $module || end "no module $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro host /host ||
  end 'no root over 9p'
for folder in ${writable.join(' ')}; do mount -t tmpfs tmpfs /host/$folder; done
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
ip link set lo up
cd /
env - HOME=/mnt TMPDIR=/mnt PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
  chroot /host ${command.map(quoted).join(' ')}
end "the agent ended with $?"
`

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`
