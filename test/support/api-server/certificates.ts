import { readFileSync } from 'node:fs'

export const certificate = (name: string): string =>
  readFileSync(new URL(`./certs/${name}`, import.meta.url), 'utf8')
