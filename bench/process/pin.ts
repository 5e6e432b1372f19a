import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

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
