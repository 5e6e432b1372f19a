import type { OptionsOf } from '../config/options.ts'
import { askStatus } from './ask-usher.ts'
import { jsonText } from './document-text.ts'
import { type Io, printAll } from './io.ts'
import { statusText } from './status-view.ts'
import { orSayWhyNot } from './tell.ts'

/** `usher status`: 0 when Usher answered (healthy or not), 3 when it did not. */
export const status = (
  { address, json }: OptionsOf<'status'>,
  io: Io,
  timeoutMs?: number,
): Promise<number> =>
  orSayWhyNot('status', io, async () => {
    const where = { controlSocket: '', address }
    const { document, raw } = await askStatus(where, timeoutMs)
    if (json) io.out(`${jsonText(raw, 2)}\n`)
    else printAll(statusText(document, Date.now(), io.colour), io)
    return 0
  })
