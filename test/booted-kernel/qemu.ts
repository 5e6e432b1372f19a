import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { qemuName } from './kernel.ts'

const words = (text: string): string[] => text.trim().split(/\s+/)

export interface QemuFiles {
  readonly kernel: string
  readonly initrd: string
  /** Where the console's output goes. */
  readonly console: string
}

/** Modules without which the machine sees no files of the host's and nobody calls it. */
export const firstModules = ['virtio_pci', '9pnet_virtio', '9p', 'virtio_console']

/**
 * An emulated machine. Its standard input and output are the agent's port, apart from the
 * console, where the kernel may write into any line. It dies with this process. Not KVM:
 * inside of another machine it may be there and hang. What newer processors have, and
 * guards against what they leak, only make an emulated one slower. It goes first where
 * others want the same processors: it needs ten times as much of them.
 */
export const startQemu = (
  files: QemuFiles,
  processors: number,
): ChildProcessByStdio<Writable, Readable, Readable> => {
  const argv = ['-smp', String(processors), ...placesOf(files)]
  return spawn('setpriv', [...goesFirst, qemuName, ...machine, ...argv], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

const goesFirst = words('--pdeathsig KILL nice -n -10')

const machine = words(`
  -accel tcg,thread=multi -cpu Nehalem -m 1536
  -nodefaults -no-user-config -display none -no-reboot
  -device virtio-serial-pci
  -chardev stdio,id=agent,signal=off
  -device virtserialport,chardev=agent,name=agent
`)

/**
 * Memory is not wiped at each allocation, nothing is checked or tested for safety's sake, and
 * nobody waits for a grace period: all that is a fifth of what `usher check` costs there.
 */
const kernelWords = words(`
  console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off
  init_on_alloc=0 init_on_free=0 page_alloc.shuffle=0 hardened_usercopy=off
  randomize_kstack_offset=off norandmaps lsm= audit=0 cryptomgr.notests
  nowatchdog tsc=reliable no_timer_check rcupdate.rcu_expedited=1
`).join(' ')

const placesOf = ({ kernel, initrd, console }: QemuFiles): readonly string[] => {
  const options = {
    kernel,
    append: kernelWords,
    initrd,
    serial: `file:${console}`,
    virtfs: hostRoot,
  }
  return Object.entries(options).flatMap(([name, value]) => [`-${name}`, value])
}

/** Several file systems are seen as one, so their inode numbers are made different. */
const hostRoot =
  'local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap'
