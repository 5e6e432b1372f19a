import { answer } from '../../support/net/answer.ts'
import { dial } from '../../support/net/dial.ts'
import type { PlaceCall } from './protocol.ts'

/** Dials and answers where this process is. */
export const inPlace = (call: PlaceCall): Promise<unknown> =>
  call.op === 'serve'
    ? answer(call.name, call.addresses, call.port)
    : dial(call, call.timeoutMs)
