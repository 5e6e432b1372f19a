import { badSource } from '../source.ts'
import type { Clock } from '../../util/clock.ts'
import { fileFault, readBounded } from '../../util/read-text.ts'
import { createPrivateKey, X509Certificate } from 'node:crypto'

/** How old a credential from a file may be, in milliseconds, as client-go has it. */
const longestAgeMs = 60_000

/** A bundle of all public authorities has a fifth of it. */
const mostBytes = 1024 * 1024

/** A text that is known, or kept up to date. */
export interface Text {
  read(now?: boolean): Promise<string>
}

/** What is wrong with a text, as the end of "the file ..."; '' when nothing is. */
export type TextCheck = (text: string) => string

/**
 * A file that others replace (projected tokens, rotated certificates), read again when
 * asked for after a minute, or `now`. Once read, a fault leaves the last text in use.
 */
export class FileText implements Text {
  readonly #path: string
  readonly #clock: Clock
  readonly #what: string
  readonly #check: TextCheck
  #text: string | undefined
  #readAt = -Infinity

  /** `what` names the file's part in errors: `kubeconfig /etc/usher.conf: users["a"].user.tokenFile`. */
  constructor(path: string, what: string, clock: Clock, check: TextCheck = () => '') {
    this.#path = path
    this.#what = what
    this.#clock = clock
    this.#check = check
  }

  async read(now = false): Promise<string> {
    const fresh = this.#clock.now() - this.#readAt < longestAgeMs
    if (this.#text !== undefined && fresh && !now) return this.#text
    try {
      const text = (await readBounded(this.#path, mostBytes)).trim()
      const wrong = text === '' ? 'is empty' : this.#check(text)
      if (wrong !== '') throw new Error(`it ${wrong}`)
      this.#text = text
      this.#readAt = this.#clock.now()
      return text
    } catch (error) {
      if (this.#text !== undefined) return this.#text
      throw badSource(`${this.#what}: cannot use ${this.#path}: ${fileFault(error)}`)
    }
  }
}

export const fixedText = (text: string): Text => ({ read: async () => text })

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
