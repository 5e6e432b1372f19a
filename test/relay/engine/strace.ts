import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../support/until.ts'

/** Why strace(1) can't make system calls fail here, else false. */
export const straceSkip = (): string | false => {
  const inject = ['-qq', '-o', '/dev/null', '-e', 'inject=getppid:error=EINTR', 'true']
  const { error, status, stderr } = spawnSync('strace', inject, { encoding: 'utf8' })
  if (error !== undefined) return 'strace is not installed'
  return status === 0 ? false : `strace does not work here: ${stderr.trim()}`
}

export interface Injection {
  /** How many of its calls have failed so far. */
  readonly count: () => number
  /** Lets the thread go, and gives how many of its calls have failed. */
  readonly stop: () => Promise<number>
}

/**
 * Makes calls of one thread fail, and of no other. Rejects when it may not be traced,
 * such as where kernel.yama.ptrace_scope forbids it.
 */
export const inject = async (
  thread: number,
  call: string,
  error: string,
  when: string,
  directory: string,
): Promise<Injection> => {
  const log = join(directory, `${call}-${error}.txt`)
  const what = ['-e', `trace=${call}`, '-e', `inject=${call}:error=${error}:when=${when}`]
  const child = spawn('strace', ['-o', log, '-p', String(thread), ...what], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = once(child, 'exit')
  let said = ''
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (text: Buffer) => {
      said += text.toString()
      if (said.includes(' attached')) resolve()
    })
    child.on('error', reject)
    child.once('exit', () => reject(new Error(`strace: ${said.trim()}`)))
  })
  const read = (): string => readFileSync(log, 'utf8')
  const count = (): number => read().split('(INJECTED)').length - 1
  return {
    count,
    stop: async () => {
      // Let go inside of a call that is to fail, the thread would be answered ENOSYS.
      const pid = processOf(thread)
      process.kill(pid, 'SIGSTOP')
      try {
        await until('it stands still', () => read().includes('stopped by SIGSTOP'))
        child.kill('SIGINT')
        await exited
      } finally {
        process.kill(pid, 'SIGCONT')
      }
      return count()
    },
  }
}

const processOf = (thread: number): number => {
  const [, pid] =
    /^Tgid:\s*(\d+)/m.exec(readFileSync(`/proc/${thread}/status`, 'utf8')) ?? []
  return Number(pid)
}

/** Ticks of CPU time that each thread of a process has used. */
const threadTicks = (pid: number): ReadonlyMap<number, number> =>
  new Map(
    readdirSync(`/proc/${pid}/task`).map(thread => {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return [Number(thread), Number(fields[11]) + Number(fields[12])]
    }),
  )

/** The thread, not the main one, that has most to do with `traffic`: the worker. */
export const busiestThread = async (
  pid: number,
  traffic: () => Promise<void>,
): Promise<number> => {
  const before = threadTicks(pid)
  await traffic()
  const used = [...threadTicks(pid)]
    .filter(([thread]) => thread !== pid)
    .map(([thread, ticks]) => ({ thread, ticks: ticks - (before.get(thread) ?? 0) }))
  const [busiest] = used.toSorted((one, other) => other.ticks - one.ticks)
  if (busiest === undefined) throw new Error(`process ${pid} has one thread only`)
  return busiest.thread
}
