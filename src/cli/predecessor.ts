import type { Predecessor } from '../proxy/options.ts'
import { answersAt } from '../util/placed-socket.ts'
import { messageOf, UsherError } from '../util/usher-error.ts'
import type { Log } from '../observe/log.ts'
import { askCommand } from './ask-usher.ts'
import { version } from './version.ts'

/**
 * The Usher that answers at this control socket, whose place this one takes; undefined where none
 * does. Rejects with CANNOT_LISTEN where it is not one that can be taken over from.
 */
export const findPredecessor = async (
  path: string | undefined,
  log: Log,
): Promise<Predecessor | undefined> => {
  if (path === undefined || path === '' || !(await answersAt(path))) return undefined
  const where = { controlSocket: path, address: '' }
  const own = { version: version(), pid: process.pid }
  try {
    const found = await askCommand(where, 'take-over', {
      ...own,
      begin: false,
      hasRelay: false,
    })
    log.info(
      { pid: found.pid, version: found.version, socket: path },
      'another Usher serves here; taking over from it',
    )
    return {
      pid: found.pid,
      version: found.version,
      ask: hasRelay => askCommand(where, 'take-over', { ...own, begin: true, hasRelay }),
      answers: () => answersAt(path),
    }
  } catch (error) {
    const text = `another process listens on the control socket ${path}, and nothing can be taken over from it: ${messageOf(error)}; end it first`
    throw new UsherError('CANNOT_LISTEN', text, { cause: error })
  }
}
