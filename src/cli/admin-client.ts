import { get } from 'node:http'
import * as v from 'valibot'
import { refused } from '../observe/control-protocol.ts'
import { type StatusDocument, statusSchema } from '../observe/status.ts'
import { textOf } from '../util/read-text.ts'
import { errorOf, UsherError } from '../util/usher-error.ts'

/** Why there is nothing to show, in words for the user. */
const noStatus = (why: string, options?: ErrorOptions): UsherError =>
  new UsherError('NO_STATUS', why, options)

interface Answer<T> {
  readonly document: T
  /** The document as it came, with fields this version does not know. */
  readonly raw: unknown
}

/** 10 000 ServicePorts with 10 endpoints each take about 20 MB. */
const longestAnswer = 512 * 1024 * 1024

const read = async (response: AsyncIterable<Buffer>): Promise<string> => {
  const text = await textOf(response, longestAnswer)
  if (text === undefined) throw noStatus('its answer is too long')
  return text
}

const ask = (url: string, signal: AbortSignal): Promise<string> =>
  new Promise((resolve, reject) => {
    // No agent: a kept-alive connection would keep this process from ending.
    const request = get(url, { signal, agent: false }, response => {
      if (response.statusCode === 200) {
        read(response).then(resolve, reject)
        return
      }
      const why = `it answered ${response.statusCode}, so it is not the metrics address of an Usher`
      // Its own words, where it has some.
      read(response).then(
        body => reject(noStatus(refusalIn(body) ?? why)),
        () => reject(noStatus(why)),
      )
    })
    request.on('error', reject)
  })

const refusalIn = (body: string): string | undefined => {
  try {
    return v.parse(refused, JSON.parse(body)).error.message
  } catch {
    return undefined
  }
}

const decode = <S extends v.GenericSchema>(
  schema: S,
  body: string,
): Answer<v.InferOutput<S>> => {
  let raw: unknown
  try {
    raw = JSON.parse(body)
  } catch {
    throw noStatus('its answer is not JSON, so it is not Usher')
  }
  const result = v.safeParse(schema, raw)
  if (result.success) return { document: result.output, raw }
  const [issue] = result.issues
  const field = v.getDotPath(issue) ?? 'the whole answer'
  throw noStatus(
    `this version of usher does not understand its answer (${field}: ${issue.message})`,
  )
}

const hint =
  'Is Usher running? --address is where to ask: what Usher was given as --metrics-bind-address'

/**
 * Asks the Usher at `address` (`host:port`) for what is at a path, for at most `timeoutMs`.
 * Rejects with NO_STATUS when there is no answer.
 */
export const askAdmin = async <S extends v.GenericSchema>(
  address: string,
  path: string,
  schema: S,
  timeoutMs: number,
): Promise<Answer<v.InferOutput<S>>> => {
  const url = `http://${address}${path}`
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    return decode(schema, await ask(url, signal))
  } catch (error) {
    const cause = errorOf(error)
    const why = signal.aborted
      ? `no answer within ${timeoutMs / 1000} s`
      : cause.message || ('code' in cause ? String(cause.code) : cause.name)
    throw noStatus(`asked ${url}: ${why}. ${hint}`, { cause })
  }
}

/** Its status; see `askAdmin`. */
export const fetchStatus = (
  address: string,
  timeoutMs: number,
): Promise<Answer<StatusDocument>> =>
  askAdmin(address, '/status', statusSchema, timeoutMs)
