import type { OutgoingHttpHeaders } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import { badSource } from '../source.ts'
import type { Clock } from '../../util/clock.ts'
import { fileFault, readBounded } from '../../util/read-text.ts'
import { createPrivateKey, X509Certificate } from 'node:crypto'

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

/** How old a credential from a file may be, in milliseconds, as client-go has it. */
const longestAgeMs = 60_000

/** A bundle of all public authorities has a fifth of it. */
const mostBytes = 1024 * 1024

/** A text that is known, or kept up to date: `now`, whatever its age. */
export type Text = (now?: boolean) => Promise<string>

/** What is wrong with a text, as the end of "the file ..."; '' when nothing is. */
export type TextCheck = (text: string) => string

/**
 * A file that others replace (projected tokens, rotated certificates), read again when
 * asked for after a minute, or `now`. Once read, a fault leaves the last text in use.
 * `what` names the file's part in errors: `kubeconfig /etc/usher.conf: users["a"].user.tokenFile`.
 */
export const fileText = (
  path: string,
  what: string,
  clock: Clock,
  check: TextCheck = () => '',
): Text => {
  let last: string | undefined
  let readAt = -Infinity
  return async (now = false) => {
    const isFresh = clock.now() - readAt < longestAgeMs
    if (last !== undefined && isFresh && !now) return last
    try {
      const text = (await readBounded(path, mostBytes)).trim()
      const wrong = text === '' ? 'is empty' : check(text)
      if (wrong !== '') throw new Error(`it ${wrong}`)
      last = text
      readAt = clock.now()
      return text
    } catch (error) {
      if (last !== undefined) return last
      throw badSource(`${what}: cannot use ${path}: ${fileFault(error)}`)
    }
  }
}

export const fixedText =
  (text: string): Text =>
  async () =>
    text

const certificate = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/**
 * What is wrong with a text that should hold certificates in PEM; '' when there is one, as
 * client-go has it. OpenSSL would trust no authority, and each connection fail with that.
 */
export const certificateFault = (text: string): string =>
  (text.match(certificate) ?? []).some(isCertificate)
    ? ''
    : 'holds no certificate; give PEM, which begins with -----BEGIN CERTIFICATE-----'

/** The same for a private key. */
export const keyFault = (text: string): string => {
  try {
    createPrivateKey(text)
    return ''
  } catch {
    // OpenSSL's messages do not help users.
    return 'holds no private key without a passphrase; give PEM, -----BEGIN PRIVATE KEY----- or the like'
  }
}

const isCertificate = (pem: string): boolean => {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
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
    const tokenText = await token?.(now)
    const caText = await ca?.(now)
    const certText = await cert?.(now)
    const keyText = await key?.(now)
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
