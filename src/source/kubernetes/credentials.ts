import type { OutgoingHttpHeaders } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import type { Text } from './file-text.ts'

export interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** The name that the server's certificate must carry, instead of the URL's. */
  readonly servername?: string
  /** False: any certificate will do. */
  readonly rejectUnauthorized?: boolean
}

/** What a request needs to be let in. */
export interface Access {
  readonly headers: OutgoingHttpHeaders
  readonly tls: TlsMaterial
}

/** Who Usher is to the API server. */
export interface Credentials {
  /** Cheap most of the time; rejects when there are none. */
  current(): Promise<Access>
  /** Looks again at once, after a 401. True when that brought other ones. */
  refresh(): Promise<boolean>
  /** Ends what runs to get them; there are none from then on. */
  close?(): void
}

interface CredentialTexts {
  readonly ca?: Text | undefined
  readonly cert?: Text | undefined
  readonly key?: Text | undefined
  readonly token?: Text | undefined
  /** The rest, which never changes. */
  readonly tls: TlsMaterial
  readonly headers: OutgoingHttpHeaders
}

/** Tokens and certificates from files (or texts), which may be replaced at any time. */
export class FileCredentials implements Credentials {
  readonly #texts: CredentialTexts
  #last: Access | undefined

  constructor(texts: CredentialTexts) {
    this.#texts = texts
  }

  async current(now = false): Promise<Access> {
    const { ca, cert, key, token, tls, headers } = this.#texts
    const tokenText = await token?.read(now)
    const caText = await ca?.read(now)
    const certText = await cert?.read(now)
    const keyText = await key?.read(now)
    const access: Access = {
      tls: {
        ...tls,
        ...(caText !== undefined && { ca: caText }),
        ...(certText !== undefined && { cert: certText }),
        ...(keyText !== undefined && { key: keyText }),
      },
      headers: {
        ...headers,
        ...(tokenText !== undefined && { authorization: `Bearer ${tokenText}` }),
      },
    }
    // The same object while nothing changed, so that callers can compare by ===.
    if (!isDeepStrictEqual(access, this.#last)) this.#last = access
    return this.#last ?? access
  }

  async refresh(): Promise<boolean> {
    const before = this.#last
    return (await this.current(true)) !== before
  }
}
