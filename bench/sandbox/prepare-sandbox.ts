import { mkdirSync, readlinkSync } from 'node:fs'
import { constants } from 'node:os'
import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'
import { markerName, mountRun, type SandboxKind } from './command.ts'
import { endingSignals } from '../process/signals.ts'

/** That this process is in one; what needs to be in one asks for it. */
export interface Sandbox {
  readonly kind: SandboxKind
  /** Temporary files go there (also `os.tmpdir()`), and go with the sandbox. */
  readonly workDirectory: string
}

const workDirectory = '/run/usher-bench'

/** Whether `runInSandbox` has started this process; false again after `prepareSandbox`. */
export const isToBePrepared = (): boolean => process.env[markerName] !== undefined

/**
 * To be called first inside: from then on signals arrive as they do elsewhere, also those
 * sent before. Gives this process a /run of its own. Rejects, having mounted nothing,
 * when it is not in a sandbox of its own.
 */
export const prepareSandbox = async (run: RunTool = runTool): Promise<Sandbox> => {
  const kind = checkedKind()
  // Neither this process' children nor their children are to take it for theirs.
  delete process.env[markerName]
  listenToParent()
  const [command = '', ...args] = mountRun
  await run(command, args)
  // For proxies that go on as another user, too; only processes in here see it.
  mkdirSync(workDirectory, { mode: 0o755 })
  process.env['TMPDIR'] = workDirectory
  return { kind, workDirectory }
}

const checkedKind = (): SandboxKind => {
  const [kind, outside] = (process.env[markerName] ?? '').split(' ')
  if (kind !== 'root' && kind !== 'user')
    throw new Error(`not in a sandbox: ${markerName} is not set`)
  if (process.pid !== 1)
    throw new Error(`not in a sandbox: process ${process.pid}, should be 1`)
  if (readlinkSync('/proc/self/ns/mnt') === outside)
    throw new Error(
      'not in a sandbox: its mounts are those of the process that started it',
    )
  return kind
}

/** Signals come as messages, see `runInSandbox`; the end of the channel is the parent's. */
const listenToParent = (): void => {
  process.on('message', (message: { readonly signal?: unknown }) => {
    const signal = endingSignals.find(name => name === message.signal)
    if (signal === undefined) return
    // Process 1 is spared what ends every other process that has no handler.
    if (!process.emit(signal, signal)) process.exit(128 + constants.signals[signal])
  })
  process.on('disconnect', () => process.exit(128 + constants.signals.SIGHUP))
  process.channel?.unref()
}
