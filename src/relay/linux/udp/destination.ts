import { canonicalIp } from '../../../util/ip.ts'

/** The words of an IPv4 or IPv6 address, as packets have them, as text. */
export const addressText = (words: Int32Array): string => {
  const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
  if (bytes.length === 4) return bytes.join('.')
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  )
  const text = groups.join(':')
  return canonicalIp(text) ?? text
}
