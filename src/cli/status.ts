import { get } from 'node:http'
import * as v from 'valibot'
import type { OptionsOf } from '../config/options.ts'
import { type StatusDocument, statusSchema } from '../observe/status.ts'
import type { Io } from './io.ts'
import { statusText } from './status-view.ts'
import { textOf } from '../util/read-text.ts'
import { errorOf, hasCode, UsherError } from '../util/usher-error.ts'
import { visible } from './words.ts'

/** Why there is no status to show, in words for the user. */
const noStatus = (why: string, options?: ErrorOptions): UsherError =>
  new UsherError('NO_STATUS', why, options)

interface Answer {
  readonly document: StatusDocument
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
      response.destroy()
      reject(
        noStatus(
          `it answered ${response.statusCode}, so it is not the metrics address of an Usher`,
        ),
      )
    })
    request.on('error', reject)
  })

const decode = (body: string): Answer => {
  let raw: unknown
  try {
    raw = JSON.parse(body)
  } catch {
    throw noStatus('its answer is not JSON, so it is not Usher')
  }
  const result = v.safeParse(statusSchema, raw)
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
 * Asks the Usher at `address` (`host:port`) for its status, for at most `timeoutMs`.
 * Rejects with NO_STATUS when there is none.
 */
export const fetchStatus = async (
  address: string,
  timeoutMs: number,
): Promise<Answer> => {
  const url = `http://${address}/status`
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    return decode(await ask(url, signal))
  } catch (error) {
    const cause = errorOf(error)
    const why = signal.aborted
      ? `no answer within ${timeoutMs / 1000} s`
      : cause.message || ('code' in cause ? String(cause.code) : cause.name)
    throw noStatus(`asked ${url}: ${why}. ${hint}`, { cause })
  }
}

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
