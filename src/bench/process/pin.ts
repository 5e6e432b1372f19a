import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Ties a process with all its threads to one CPU (taskset(1), Linux only). */
export const pinProcess = async (pid: number, cpu: number): Promise<void> => {
  await promisify(execFile)('taskset', ['-a', '-p', '-c', String(cpu), String(pid)])
}
