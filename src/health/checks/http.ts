import type { ConnectionOptions } from 'node:tls'
import { type CheckOutcome, denied, failed, passed, quote } from '../check.ts'
import type { Check } from '../check-option.ts'
import type { Script } from '../conversation.ts'

/** More than the heads of an answer take. */
const mostBytes = 16 * 1024

/** Each goes before the answer, as 100 and 103 do. */
const mostInterim = 8

const answerBegin = 'HTTP/1.'
const statusLine = /^HTTP\/1\.[01] (\d{3})[ \r\n]/
/** A line may end with LF alone (RFC 9112, 2.2); scripts behind inetd mix both. */
const headEnd = /\n\r?\n/

/**
 * Up is what answers with a status that is wanted; a redirect is not followed. Of the
 * answer only the status counts, once its headers are complete: that spares node's HTTP client
 * and parser, which cost as much as the rest of a check. `host` as in a URL, with its port.
 */
export const httpScript = (
  { path = '/', expectStatus = 200, method = 'GET', headers = {} }: Check,
  host: string,
  tls?: ConnectionOptions,
): Script => ({
  opening: Buffer.from(
    [
      `${method} ${path} HTTP/1.1`,
      `Host: ${host}`,
      'Connection: close',
      ...(method === 'POST' ? ['Content-Length: 0'] : []),
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '\r\n',
    ].join('\r\n'),
    'latin1',
  ),
  tls,
  mostBytes,
  serverCloses: true,
  receive: bytes => {
    const outcome = answerOutcome(bytes, [expectStatus].flat())
    if (outcome === undefined && bytes.length < mostBytes) return undefined
    return { outcome: outcome ?? noAnswer(bytes) }
  },
})

/** Undefined while more is needed. */
const answerOutcome = (
  bytes: Buffer,
  wanted: readonly number[],
): CheckOutcome | undefined => {
  let rest = bytes
  for (let heads = 0; heads <= mostInterim; heads += 1) {
    const line = rest.toString('latin1', 0, 13)
    if (!answerBegin.startsWith(line.slice(0, answerBegin.length))) return noAnswer(rest)
    const [end] = headEnd.exec(rest.toString('latin1')) ?? []
    if (end === undefined) return undefined
    const [, status] = statusLine.exec(line) ?? []
    if (status === undefined) return noAnswer(rest)
    if (!isInterim(Number(status))) return statusOutcome(Number(status), wanted)
    rest = rest.subarray(rest.indexOf(end) + end.length)
  }
  return noAnswer(bytes)
}

/** Of those only 101 is the last. */
const isInterim = (status: number): boolean => status < 200 && status !== 101

const statusOutcome = (status: number, wanted: readonly number[]): CheckOutcome =>
  wanted.includes(status)
    ? passed
    : denied(`HTTP status ${status}, expected ${wanted.join(' or ')}`)

const noAnswer = (bytes: Buffer): CheckOutcome =>
  failed(`no HTTP answer: ${quote(bytes)}`)
