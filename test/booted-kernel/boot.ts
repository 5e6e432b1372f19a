import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { Calls } from './calls.ts'
import { type GuestPrograms, writeGuestPrograms } from './guest-programs.ts'
import { initrd } from './initrd.ts'
import type { Kernel } from './kernel.ts'
import { firstModules, startQemu } from './qemu.ts'

/** At best 3 s; with other tests on the same processors much longer. */
const bootMs = 120_000
/** Whatever happens, it is gone after that; the test has a little more. */
const lifeMs = 540_000

export interface Booted {
  /** Of the machine's agent. */
  readonly calls: Calls
  /** Where the machine has them. */
  readonly programs: GuestPrograms
}

/** A test, or whoever else gives a folder and ends what it has started. */
export type MachineOwner = Pick<Test, 'testdir' | 'teardown'>

/** Boots a machine without netfilter, whose agent takes calls. It ends with the test. */
export const bootMachine = async (
  t: MachineOwner,
  kernel: Kernel,
  processors: number,
): Promise<Booted> => {
  const folder = t.testdir({})
  const files = {
    kernel: kernel.image,
    initrd: join(folder, 'initrd'),
    console: join(folder, 'console'),
  }
  const programs = await writeGuestPrograms(folder)
  const modules = kernel.modules(...firstModules)
  const command = [process.execPath, programs.agent]
  await writeFile(files.initrd, await initrd({ modules, command }))
  const qemu = startQemu(files, processors)
  const calls = new Calls(qemu)
  const errors = text(qemu.stderr)
  let why = 'by itself'
  const goesAway = async (): Promise<void> => {
    await once(qemu, 'close')
    const said = await readFile(files.console, 'utf8').catch(() => '')
    const lastWords = `${await errors}${said.split('\n').slice(-30).join('\n')}`
    calls.fail(new Error(`the machine ended ${why}; its last words: ${lastWords}`))
  }
  const gone = goesAway()
  const end = (reason: string): Promise<void> => {
    why = reason
    qemu.kill('SIGKILL')
    return gone
  }
  const life = setTimeout(() => void end(`after ${lifeMs} ms`), lifeMs)
  t.teardown(() => {
    clearTimeout(life)
    return end('with the test')
  })
  await calls.ready(bootMs).catch(async () => {
    await end(`because it was not up after ${bootMs} ms`)
    // Fails with the last words.
    await calls.ready(0)
  })
  return { calls, programs }
}
