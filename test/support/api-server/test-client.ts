import { Agent, request } from 'node:https'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import { certificate } from './certificates.ts'
import type { KubeObject } from './kube-object.ts'
import type { ApiServer } from './server.ts'

/** A plain HTTPS client: what the server says is judged without any of Usher's code. */
export interface Client {
  readonly call: (method: string, path: string, more?: Call) => Promise<Answer>
  readonly get: (path: string) => Promise<Answer>
  /** Resolves when the headers have come. */
  readonly watch: (path: string) => Promise<Stream>
}

export interface Call {
  readonly body?: unknown
  readonly type?: string
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The text as JSON; `{}` when it is none. */
  readonly body: Body
  /** False when the connection ended before the answer did. */
  readonly complete: boolean
}

export interface Body {
  readonly kind?: string
  readonly code?: number
  readonly reason?: string
  readonly message?: string
  readonly metadata: {
    readonly resourceVersion?: string
    readonly continue?: string
    readonly remainingItemCount?: number
  }
  readonly items?: readonly KubeObject[]
}

export interface Event {
  readonly type: string
  readonly object: KubeObject & { readonly code?: number }
}

export interface Stream {
  readonly status: number
  /** The whole lines so far. */
  readonly lines: readonly string[]
  /** The lines that are JSON, without bookmarks. */
  readonly events: () => Event[]
  readonly bookmarks: () => Event[]
  readonly ended: () => 'complete' | 'cut' | undefined
  readonly stop: () => void
}

export interface Identity {
  /** undefined: no token. */
  readonly token?: string | undefined
  /** The name of a certificate. */
  readonly certificate?: string
}

export const apiClient = (
  t: Test,
  server: ApiServer,
  identity: Identity = { token: server.token },
): Client => {
  const agent = new Agent({
    keepAlive: true,
    ca: certificate('ca.crt'),
    ...(identity.certificate === undefined
      ? {}
      : {
          cert: certificate(`${identity.certificate}.crt`),
          key: certificate(`${identity.certificate}.key`),
        }),
  })
  t.teardown(() => agent.destroy())
  const headers = identity.token ? { authorization: `Bearer ${identity.token}` } : {}
  const send = (method: string, path: string, { body, type }: Call = {}) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const content = { 'content-type': type ?? 'application/json' }
      const outgoing = request(
        server.url + path,
        { agent, method, headers: { ...headers, ...content } },
        resolve,
      )
      outgoing.on('error', reject).end(body === undefined ? '' : JSON.stringify(body))
    })
  const call: Client['call'] = async (method, path, more) =>
    answerOf(await send(method, path, more))
  return {
    call,
    get: path => call('GET', path),
    watch: async path => streamOf(await send('GET', path)),
  }
}

const answerOf = async (response: IncomingMessage): Promise<Answer> => {
  const text = await textOf(response)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: (parse(text) ?? { metadata: {} }) as Body,
    complete: response.complete,
  }
}

const textOf = (response: IncomingMessage): Promise<string> =>
  new Promise(resolve => {
    let text = ''
    response.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    response.on('error', () => undefined).on('close', () => resolve(text))
  })

const streamOf = (response: IncomingMessage): Stream => {
  let lines: string[] = []
  let rest = ''
  let ended: 'complete' | 'cut' | undefined
  response.setEncoding('utf8').on('data', (piece: string) => {
    rest += piece
    // Lines may be long: they are looked through once.
    if (!piece.includes('\n')) return
    const pieces = rest.split('\n')
    rest = pieces.pop() ?? ''
    lines = [...lines, ...pieces]
  })
  response.on('error', () => undefined)
  response.on('close', () => {
    ended = response.complete ? 'complete' : 'cut'
  })
  const events = () => lines.flatMap(line => (parse(line) as Event | undefined) ?? [])
  return {
    status: response.statusCode ?? 0,
    get lines() {
      return lines
    },
    events: () => events().filter(({ type }) => type !== 'BOOKMARK'),
    bookmarks: () => events().filter(({ type }) => type === 'BOOKMARK'),
    ended: () => ended,
    stop: () => response.destroy(),
  }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
