import type { Cause } from '../../cause.ts'
import type { Attempt } from '../../relay.ts'
import type { Dial } from './dial.ts'

/** What most connections have none of: retries, an abnormal end. */
export class Story {
  cause: Cause = '--'
  /** The errno or reason behind the cause. */
  detail = ''
  /** Undefined when the first attempt went well, of which the table knows all. */
  attempts: readonly Attempt[] | undefined
  /** While the first attempt has failed or takes long. */
  dial: Dial | undefined
  /** After a reset: until when the other side may take to get what is left. */
  deliverUntil = 0
  /** How long it was waited for that last. */
  lookMs = 0

  /** The first cause is the cause: what follows from it is not told. */
  blame(cause: Cause, detail: string): void {
    if (this.cause !== '--') return
    this.cause = cause
    this.detail = detail
  }
}
