import { createPrivateKey, X509Certificate } from 'node:crypto'

const certificate = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/**
 * What is wrong with a text that should hold certificates in PEM; '' when there is one, as
 * client-go has it. OpenSSL would take it for "trust nobody", and the error be the server's.
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
    // OpenSSL's words are for programmers.
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
