import { readFileSync } from 'node:fs'
import { shippedFile } from '../util/own-files.ts'

/** What is installed by now may be another. */
const read = (): string => {
  const url = shippedFile('package.json')
  const parsed: unknown = JSON.parse(readFileSync(url, 'utf8'))
  if (typeof parsed === 'object' && parsed !== null && 'version' in parsed)
    return String(parsed.version)
  throw new Error(`${url.pathname} has no version`)
}

const ofThisProcess = read()

/** The version in package.json, as it was when this process began. */
export const version = (): string => ofThisProcess
