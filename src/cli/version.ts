import { readFileSync } from 'node:fs'
import { shippedFile } from '../util/own-files.ts'

/** The version in package.json. */
export const version = (): string => {
  const url = shippedFile('package.json')
  const parsed: unknown = JSON.parse(readFileSync(url, 'utf8'))
  if (typeof parsed === 'object' && parsed !== null && 'version' in parsed)
    return String(parsed.version)
  throw new Error(`${url.pathname} has no version`)
}
