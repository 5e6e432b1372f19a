import type { AccessLogOptions } from '../../model/access-log.ts'
import { isUnix } from '../../util/unix-address.ts'
import type { ConnectionRecord } from '../cause.ts'
import type { Bind } from '../relay.ts'

/** What a line of the access log is made from: one connection that has ended. */
export interface AccessEntry {
  readonly record: ConnectionRecord
  readonly waited: Waited
  /** Epoch milliseconds. */
  readonly endedAt: number
  /** Connections that are open now, as far as who had this one knows; without this one. */
  readonly open: OpenNow
}

/** Milliseconds. */
export interface Waited {
  /** For an endpoint, or for the end of a pause. */
  readonly heldMs: number
  /** For a place at an endpoint. */
  readonly queuedMs: number
}

/** Of one that was turned away. */
export const notWaited: Waited = { heldMs: 0, queuedMs: 0 }

export interface OpenNow {
  readonly all: number
  readonly route: number
  /** Of the endpoint that took it; 0 where none did. */
  readonly endpoint: number
}

/** What is the same in all lines of a route. */
export interface LoggedRoute extends AccessLogOptions {
  /** Where it listens; undefined where that is several addresses. */
  readonly bind: Bind | undefined
}

/** Epoch milliseconds of the accept. */
export const acceptedAt = ({ endedAt, record }: AccessEntry): number =>
  endedAt - record.totalMs

/** `[::1]:53` in parts; a unix socket is all address, and its port 0. */
export const placeOf = (text: string): Bind => {
  const colon = text.lastIndexOf(':')
  const port = Number(text.slice(colon + 1))
  if (colon <= 0 || !(port > 0) || isUnix(text)) return { address: text, port: 0 }
  const isBracketed = text.charCodeAt(0) === openBracket
  return { address: isBracketed ? text.slice(1, colon - 1) : text.slice(0, colon), port }
}

const openBracket = 91
