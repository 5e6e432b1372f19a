import { mkdirSync } from 'node:fs'
import { chooseSandbox, sandboxCommand } from '../../bench/sandbox/sandbox.ts'

/** What goes before a command line, so that nothing outlives it. */
export interface TestSandbox {
  readonly sandbox: readonly string[]
  /** Why there is none; else ''. */
  readonly why: string
}

/** Where t.testdir() makes directories. */
const fixtures = '.tap/fixtures'
/** Not /tmp: what is tested may be there itself. */
const temporary = '/dev/shm'

/**
 * The shell stays, as process 1: it waits for whatever loses its parent. Named network
 * namespaces are in /run, temporary directories in the other two.
 */
const enter = [
  ...['/run', temporary, fixtures].map(
    path => `mount -t tmpfs -o mode=1777 usher-tests ${path}`,
  ),
  `export TMPDIR=${temporary}`,
  '{ "$@"; exit $?; }',
].join(' && ')

/**
 * The kernel takes everything that a test file has started or made along with its process,
 * however that one ends: see `sandboxCommand`. For root; others can make no namespaces.
 */
export const chooseTestSandbox = async (): Promise<TestSandbox> => {
  if (process.getuid?.() !== 0) return { sandbox: [], why: 'that takes root' }
  const { kind, why } = await chooseSandbox()
  if (kind !== 'root') return { sandbox: [], why: why || 'only as another user' }
  mkdirSync(fixtures, { recursive: true })
  return { sandbox: [...sandboxCommand(kind), 'sh', '-c', enter, 'sh'], why: '' }
}
