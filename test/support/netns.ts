import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rm, stat } from 'node:fs/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'
import { missingPrograms } from './installed.ts'

const exec = promisify(execFile)

/** A network namespace of the test's own, with `lo` up. */
export interface Netns {
  readonly name: string
  /** Runs a tool in it. */
  readonly run: RunTool
  /** `ip netns exec NAME`, before a command line. */
  readonly prefix: readonly string[]
  close(): Promise<void>
}

/** Why no namespace can be made here, or one of the tools is missing; '' when all is there. */
export const netnsProblem = async (...tools: string[]): Promise<string> => {
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  const missing = missingPrograms(...tools)
  if (missing !== '') return missing
  const name = `usher-try-${process.pid}-${randomBytes(3).toString('hex')}`
  try {
    await exec('ip', ['netns', 'add', name])
    await exec('ip', ['netns', 'del', name])
    return ''
  } catch (error) {
    return `network namespaces can't be made here: ${(error as Error).message.split('\n')[0]}`
  }
}

/** Made for one test file, and removed with everything in it at that file's end. */
export const makeNetns = async (label: string): Promise<Netns> => {
  const name = `usher-${label}-${process.pid}-${randomBytes(3).toString('hex')}`
  await exec('ip', ['netns', 'add', name])
  const prefix = ['ip', 'netns', 'exec', name]
  const run: RunTool = (command, args, options) =>
    runTool('ip', ['netns', 'exec', name, command, ...args], options)
  await run('ip', ['link', 'set', 'lo', 'up'])
  const close = async (): Promise<void> => {
    const { stdout } = await exec('ip', ['netns', 'pids', name])
    for (const pid of stdout.split('\n').filter(Boolean)) kill(Number(pid))
    // What Usher remembers of settings in it would be for the next one of its number.
    const { ino } = await stat(`/run/netns/${name}`)
    await rm(`/run/usher/sysctls-${ino}.json`, { force: true })
    await exec('ip', ['netns', 'del', name])
  }
  t.teardown(close)
  return { name, run, prefix, close }
}

/** Only what still runs inside of the test's own namespace. */
const kill = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
