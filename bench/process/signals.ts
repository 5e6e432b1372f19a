import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Signals that ask a program to end. */
export const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Whether a process is there, be it only to be waited for. */
export const isThere = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Ends a process at once, if it has not ended by itself. */
export const kill = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

/** Ties a process with all its threads to one CPU (taskset(1), Linux only). */
export const pinProcess = async (pid: number, cpu: number): Promise<void> => {
  await promisify(execFile)('taskset', ['-a', '-p', '-c', String(cpu), String(pid)])
}

/** Why client and proxy can't have a CPU each here; '' when they can. */
export const pinningProblem = async (): Promise<string> => {
  try {
    for (const cpu of ['0', '1'])
      await promisify(execFile)('taskset', ['-c', cpu, process.execPath, '--version'])
    return ''
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT'
      ? 'taskset is not installed (Debian package util-linux)'
      : (message.trim().split('\n').at(-1) ?? '')
  }
}
