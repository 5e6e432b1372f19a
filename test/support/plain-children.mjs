// tap has every process that a test starts load its own bookkeeping, which without coverage
// nobody reads: a quarter of a second of CPU time for each of the many that are started.
import processOnSpawn from 'process-on-spawn'

if (process.env._TAPJS_PROCESSINFO_COVERAGE_ === '0') {
  processOnSpawn.addListener(child => {
    const { NODE_OPTIONS, ...env } = child.env
    if (NODE_OPTIONS?.includes('@tapjs/processinfo')) child.env = env
  })
}
