// What clients of PostgreSQL may say first (Message Formats, in its documentation): requests of a
// fixed code behind their length.

import { show } from '../util/printable.ts'

const code = { cancel: 80_877_102, ssl: 80_877_103, gss: 80_877_104 }

const requestOf = (number: number): Buffer => {
  const request = Buffer.alloc(8)
  request.writeUInt32BE(request.length, 0)
  request.writeUInt32BE(number, 4)
  return request
}

/** Asks whether the server takes TLS: it answers with one byte. */
export const sslRequest = requestOf(code.ssl)
const gssRequest = requestOf(code.gss)

/** What the server says that takes it, after which there is TLS. */
export const takesTls = 'S'

/** For people: an endpoint's answer that is not `takesTls`; '' when it has ended, or none has come. */
export const noTls = (answer: string): string =>
  answer === ''
    ? 'no answer to a request for TLS'
    : `${show(answer)} to a request for TLS`

/**
 * What a client is to be answered that asks for encryption first, a byte for each of its requests: it gets TLS,
 * and no GSSAPI. Undefined while more is needed; '' for all other clients, which have begun.
 */
export const answersTo = (bytes: Buffer, before = ''): string | undefined => {
  const head = bytes.subarray(0, sslRequest.length)
  const mayBe = (request: Buffer): boolean =>
    head.length > 0 && request.subarray(0, head.length).equals(head)
  if (!mayBe(sslRequest) && (before !== '' || !mayBe(gssRequest))) return before
  if (head.length < sslRequest.length) return undefined
  if (mayBe(sslRequest)) return before + takesTls
  return answersTo(bytes.subarray(gssRequest.length), 'N')
}

/**
 * Whether it asks for a query to be cancelled, also behind a request for encryption. That is answered by
 * an end alone, and meant for one server.
 */
export const isCancelRequest = (bytes: Buffer | undefined): boolean => {
  if (bytes === undefined || bytes.length < 8) return false
  const isAsked = isAt(bytes, 0, sslRequest) || isAt(bytes, 0, gssRequest)
  if (isAsked) return isCancelRequest(bytes.subarray(8))
  return bytes[0] === 0 && bytes.readUInt32BE(4) === code.cancel
}

const isAt = (bytes: Buffer, at: number, request: Buffer): boolean =>
  bytes.subarray(at, at + request.length).equals(request)
