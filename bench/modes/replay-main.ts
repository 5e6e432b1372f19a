import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { performance } from 'node:perf_hooks'
import { answerParent } from '../process/child.ts'
import type { ReplayDone, ReplayQuestion } from './protocol.ts'
import { watchMemory } from './usage.ts'
import { toolEnv } from '../../src/kernel/run-tool.ts'

/*
 * Runs tools in the network namespace that it is started in, on inputs that are there
 * already: what they take by themselves.
 */

/** From its start to its end. Rejects when it fails. */
const replay = async ({ command, args, input }: ReplayQuestion): Promise<ReplayDone> => {
  const file = await open(input === '' ? '/dev/null' : input)
  try {
    const startedAt = performance.now()
    const child = spawn(command, args, {
      env: toolEnv(),
      stdio: [file.fd, 'ignore', 'inherit'],
    })
    const memory = watchMemory(child.pid)
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', resolve)
    }).finally(memory.stop)
    const ms = performance.now() - startedAt
    // What was tried only need not succeed.
    if (code !== 0 && input !== '')
      throw new Error(`${command}, run once more: exit code ${code}`)
    return { ms, peakRssBytes: memory.peak() }
  } finally {
    await file.close()
  }
}

answerParent(question => replay(question as ReplayQuestion))
