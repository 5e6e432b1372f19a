import type { RunTool } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { holdText, silenceText } from './table-text.ts'
import { proxyAddressOf } from '../../kernel/proxy-address.ts'
import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'
import { familyWords, probeTablePrefix, tableName } from '../../kernel/nft/words.ts'

/** `ip usher`. */
export const ownTable = (family: IpFamily): string =>
  `${familyWords(family).family} ${tableName}`

/** `ip usher` and the like: Usher's table of a family, and those of probes. */
export const tablesOfUsher = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly string[]> => {
  const { family: ip } = familyWords(family)
  const text = await run('nft', ['list', 'tables', ip])
  const names = text.split('\n').flatMap(line => /^table \S+ (\S+)/.exec(line)?.[1] ?? [])
  return names
    .filter(name => name === tableName || name.startsWith(probeTablePrefix))
    .map(name => `${ip} ${name}`)
}

/** Those who are led by a table that an earlier process has left wait, if there is one. */
export const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  const own = ownTable(family)
  if (!(await tablesOfUsher(run, family)).includes(own)) return
  await run('nft', ['-f', '-'], { input: holdText(own, true) })
}

/**
 * Takes Usher's own table out so that nobody is refused by what is left of it: what leads to
 * the proxy address goes first, and what keeps the silence there when nobody is led there.
 */
export const removeOwnTable = async (run: RunTool, family: IpFamily): Promise<void> => {
  const input = silenceText(family, tableName, proxyAddressOf[family])
  await run('nft', ['-f', '-'], { input })
  await forgetWaiting(run, family)
  await deleteTables(run, [ownTable(family)])
}

/** One transaction; a table that is gone by now is made first, lest all of it fails. */
export const deleteTables = async (
  run: RunTool,
  tables: readonly string[],
): Promise<void> => {
  if (tables.length === 0) return
  const input = tables
    .map(table => `add table ${table}\ndelete table ${table}\n`)
    .join('')
  await run('nft', ['-f', '-'], { input })
}

/** A probe whose table is older than this many seconds was killed half-way. */
const longestProbeS = 60

/** By the time in its name; another process may be probing just now. */
export const isAbandoned = (table: string): boolean => {
  const made = new RegExp(`${probeTablePrefix}(\\d+)-`).exec(table)?.[1]
  return made !== undefined && Math.abs(Date.now() / 1000 - Number(made)) > longestProbeS
}
