import { readFileSync } from 'node:fs'

/** The version in package.json, which is two directories up in src and in dist alike. */
export const version = (): string => {
  const url = new URL('../../package.json', import.meta.url)
  const parsed: unknown = JSON.parse(readFileSync(url, 'utf8'))
  if (typeof parsed === 'object' && parsed !== null && 'version' in parsed)
    return String(parsed.version)
  throw new Error(`${url.pathname} has no version`)
}
