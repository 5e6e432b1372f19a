import type { IncomingMessage } from 'node:http'
import { randomBytes } from 'node:crypto'
import { TLSSocket } from 'node:tls'

/** Who is let in: bearers of a token, and clients with a certificate of the authority. */
export class Credentials {
  readonly #tokens = new Set<string>()
  #token: string

  constructor() {
    this.#token = this.#add()
  }

  /** The token that was given out last. */
  get token(): string {
    return this.#token
  }

  /** Gives out another token. @param keepOld - whether the ones before still work */
  rotate(keepOld = false): string {
    if (!keepOld) this.#tokens.clear()
    this.#token = this.#add()
    return this.#token
  }

  admits({ headers, socket }: IncomingMessage): boolean {
    const [, token = ''] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? []
    if (token !== '') return this.#tokens.has(token)
    return socket instanceof TLSSocket && socket.authorized
  }

  #add(): string {
    const token = `test-${randomBytes(12).toString('hex')}`
    this.#tokens.add(token)
    return token
  }
}
