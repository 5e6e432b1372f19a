import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pinsFolder } from '../../src/kernel/bpf/pins.ts'
import { runTool } from '../../src/kernel/run-tool.ts'
import { joining, makeCgroup, removeCgroup } from '../process/cgroup.ts'
import type { Place } from '../topology/topology.ts'

/** A cgroup whose processes are led as they connect, and a bpffs for what leads them. */
export interface LedClients {
  /** As all processes of the bench see them; those in namespaces have another /sys. */
  readonly flags: readonly string[]
  /** Clients have to be in it. */
  readonly cgroup: string
  /** The place, with whoever is started there in the cgroup. */
  readonly at: <P extends Pick<Place, 'enter'>>(place: P) => P
  /** After its processes have ended: programs at it go with the group. */
  readonly close: () => Promise<void>
}

/**
 * Both are this target's alone: a bpffs is a new one with each mount. Mounts are the sandbox's, and
 * the folders are not in the target's own, which is emptied while they are mounted.
 */
export const openLedClients = async (
  name: string,
  workDir: string,
): Promise<LedClients> => {
  const cgroup = await makeCgroup()
  const folder = join(workDir, `${name}-led`)
  const [group, bpffs] = [join(folder, 'cgroup'), join(folder, 'bpf')]
  const close = async (): Promise<void> => {
    // Namespaces that were entered meanwhile have copies of the mount.
    await rm(pinsFolder(bpffs), { recursive: true, force: true })
    await runTool('umount', [group, bpffs])
    await removeCgroup(cgroup)
  }
  await mkdir(group, { recursive: true })
  await mkdir(bpffs, { recursive: true })
  await runTool('mount', ['--bind', cgroup, group])
  await runTool('mount', ['-t', 'bpf', 'bpf', bpffs])
  return {
    flags: [
      '--connect-time=on',
      `--connect-time-cgroup=${group}`,
      `--connect-time-bpffs=${bpffs}`,
    ],
    cgroup,
    at: place => ({ ...place, enter: [...joining(cgroup), ...place.enter] }),
    close,
  }
}
