import { request } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { tempDirectory } from './net/temp-directory.ts'

/** A short path for a control socket; its directory is removed when the test ends. */
export const socketPath = async (t: Test): Promise<string> =>
  join(await tempDirectory(t), 's')

export interface ControlAnswer {
  readonly status: number
  /** As JSON where it is any, else text. */
  readonly body: unknown
}

/** Posts an order, as `usher pause` does; `body` may be anything. */
export const order = (
  socket: string,
  path: string,
  body: unknown,
): Promise<ControlAnswer> =>
  new Promise((resolve, reject) => {
    const options = { socketPath: socket, path, method: 'POST', agent: false }
    const sent = request(options, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => (text += piece))
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: jsonOr(text) }),
      )
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(typeof body === 'string' ? body : JSON.stringify(body))
  })

const jsonOr = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
