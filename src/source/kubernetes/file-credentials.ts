import { isDeepStrictEqual } from 'node:util'
import type { OutgoingHttpHeaders } from 'node:http'
import type { Access, Credentials, TlsMaterial } from './credentials.ts'
import type { Text } from './file-text.ts'

export interface CredentialTexts {
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
    // The same object again while nothing changed: whoever compares has it easy.
    if (!isDeepStrictEqual(access, this.#last)) this.#last = access
    return this.#last ?? access
  }

  async refresh(): Promise<boolean> {
    const before = this.#last
    return (await this.current(true)) !== before
  }
}
