import { execFileSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Test } from 'tap'

/** The soft limit on open files that a shell started by this process has. */
export const softLimit = (): string =>
  execFileSync('sh', ['-c', 'ulimit -Sn'], { encoding: 'utf8' }).trim()

/** Sets that of this process; throws where there is no prlimit(1). */
export const setSoftLimit = (soft: string): void => {
  const command = `prlimit --pid ${process.pid} --nofile=${soft}:`
  execFileSync('sh', ['-c', command], { stdio: 'ignore' })
}

/** Runs `body` while this process can open no more files. */
export const withoutDescriptors = async (
  t: Test,
  body: () => Promise<void>,
): Promise<void> => {
  const before = softLimit()
  try {
    setSoftLimit('512')
  } catch {
    return t.comment('no prlimit to lower the limit on open files with')
  }
  const opened: number[] = []
  try {
    for (;;) opened.push(openSync('/dev/null', 'r'))
  } catch (error) {
    t.match(error, { code: 'EMFILE' }, 'there are none left')
  }
  try {
    await body()
  } finally {
    for (const fd of opened) closeSync(fd)
    setSoftLimit(before)
  }
}
