import { readFileSync } from 'node:fs'
import { freePort, testHost } from '../support/ports.ts'

const pages = ['sidecar.md', 'routes.md']
  .map(name => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'))
  .join('\n')

/**
 * The first block of code in a language below a heading of docs/sidecar.md or docs/routes.md, as it is
 * written.
 */
export const exampleBelow = (heading: string, language = 'yaml'): string => {
  const [, section = ''] = pages.split(new RegExp(String.raw`^#+ ${heading}$`, 'm'))
  const [, block] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(section) ?? []
  if (block === undefined) throw new Error(`no ${language} below "${heading}"`)
  return block
}

export interface Address {
  readonly host: string
  readonly port: number
}

export interface PlacedExample {
  readonly text: string
  /** What stands in place of an address of the example: `pg-0.db:5432`. */
  readonly at: (address: string) => Address
}

/** A host, if there is one, and a port: `pg-0.db:5432`, `[fd00::10]:53`, `:8008`. */
const address = /(\[[\da-f:]+\]|[a-z\d][-a-z\d]*(?:\.[-a-z\d]+)+|):(\d+)\b/g

/**
 * An example with addresses of this host in place of its own, and else as it is: 127.0.0.1, where
 * routes listen, becomes the test's address, each other host a loopback address of its own, and
 * each port one that is free, the same one wherever it stands.
 */
export const placeExample = async (text: string): Promise<PlacedExample> => {
  const found = [...text.matchAll(address)].map(([, host = '', port = '']) => ({
    host,
    port,
  }))
  const hosts = new Map([['', '']])
  const ports = new Map<string, number>()
  for (const { host, port } of found) {
    const next = testHost.replace(/^127\.\d+/, `127.${200 + hosts.size}`)
    if (!hosts.has(host)) hosts.set(host, host === '127.0.0.1' ? testHost : next)
    if (!ports.has(port)) ports.set(port, await freePort('0.0.0.0'))
  }
  const at = (given: string): Address => {
    const [, host = '', port = ''] = new RegExp(address).exec(given) ?? []
    const placed = { host: hosts.get(host), port: ports.get(port) }
    if (placed.host === undefined || placed.port === undefined)
      throw new Error(`${given} is not in the example`)
    return { host: placed.host, port: placed.port }
  }
  const put = (given: string): string => `${at(given).host}:${at(given).port}`
  return { text: text.replace(address, put), at }
}
