import { createHash } from 'node:crypto'

/** 16 hexadecimal digits of SHA-256: for names that stand for a text. */
export const shortHash = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 16)
