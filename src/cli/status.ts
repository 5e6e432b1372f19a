import type { OptionsOf } from '../config/options.ts'
import { hasCode } from '../util/usher-error.ts'
import { fetchStatus } from './admin-client.ts'
import type { Io } from './io.ts'
import { statusText } from './status-view.ts'
import { visible } from './words.ts'

/** `usher status`: 0 when Usher answered (healthy or not), 1 when it did not. */
export const status = async (
  options: OptionsOf<'status'>,
  io: Io,
  timeoutMs = 3000,
): Promise<number> => {
  try {
    const { document, raw } = await fetchStatus(options.address, timeoutMs)
    if (options.json) io.out(`${JSON.stringify(raw, undefined, 2)}\n`)
    else for (const piece of statusText(document, Date.now(), io.colour)) io.out(piece)
    return 0
  } catch (error) {
    if (!hasCode(error, 'NO_STATUS')) throw error
    io.err(`usher status: ${visible(error.message)}\n`)
    return 1
  }
}
