import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { serverDirectory } from '../health/server-process.ts'
import { startHaproxy } from '../support/peers/haproxy.ts'
import { startUsher, type Usher } from '../support/usher.ts'
import { type Address, placeExample } from './placed-example.ts'

const folder = new URL('../../deploy/from-haproxy/', import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, folder), 'utf8')

/** What all of HAProxy's configurations there begin with. */
export const defaults = read('defaults.cfg')

/** A configuration of HAProxy's and the routes that are to do the same. */
export interface Pair {
  readonly name: string
  readonly haproxy: string
  readonly routes: string
}

export const pairs: readonly Pair[] = readdirSync(folder)
  .filter(file => file.endsWith('.cfg') && file !== 'defaults.cfg')
  .map(file => {
    const name = file.slice(0, -'.cfg'.length)
    return { name, haproxy: read(file), routes: read(`${name}.yaml`) }
  })

/** One of the two, where it listens. */
export interface Proxy extends Address {
  readonly name: 'HAProxy' | 'Usher'
}

interface Started {
  readonly haproxy: Proxy
  readonly usher: Proxy & { readonly process: Usher }
  readonly both: readonly [Proxy, Proxy]
}

export interface PlacedPair {
  /** What stands in place of an address of the files; 127.0.0.1 is HAProxy's, 127.0.0.2 Usher's. */
  readonly at: (address: string) => Address
  /** Starts both; `sections` of HAProxy's and flags of Usher's are added. */
  readonly start: (sections?: string, ...flags: readonly string[]) => Promise<Started>
}

/**
 * A pair with the same addresses of this host in place of those of its servers, and each proxy
 * with an address of its own. `change` is applied to both texts before.
 */
export const placePair = async (
  t: Test,
  name: string,
  change = (text: string): string => text,
): Promise<PlacedPair> => {
  const pair = pairs.find(one => one.name === name)
  if (pair === undefined) throw new Error(`no pair "${name}"`)
  const routes = pair.routes.replaceAll('127.0.0.1', '127.0.0.2')
  const { text, at } = await placeExample(change(`${pair.haproxy}\0${routes}`))
  const [placed = '', usherText = ''] = text.split('\0')
  // A check's port stands without a colon there.
  const haproxyText = placed.replace(
    /\bport (\d+)/,
    (_, port: string) => `port ${at(`:${port}`).port}`,
  )
  const [, port = ''] = /bind 127\.0\.0\.1(:\d+)/.exec(pair.haproxy) ?? []
  const start: PlacedPair['start'] = async (more = '', ...flags) => {
    const haproxy: Proxy = { name: 'HAProxy', ...at(`127.0.0.1${port}`) }
    const config = `${more}\n${defaults}\n${haproxyText}`
    await startHaproxy(t, haproxy.host, [haproxy.port], config)
    const path = join(serverDirectory(t), 'routes.yaml')
    writeFileSync(path, usherText)
    const process = await startUsher(t, 'sidecar', '--config', path, ...flags)
    const usher = { name: 'Usher', ...at(`127.0.0.2${port}`), process } as const
    return { haproxy, usher, both: [haproxy, usher] }
  }
  return { at, start }
}
