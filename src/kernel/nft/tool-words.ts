import { type RunTool, ToolError } from '../run-tool.ts'

/** `nft 1.0.6`. Rejects with ToolError when there is none. */
export const nftVersion = async (run: RunTool): Promise<string> =>
  nameAndVersion(await run('nft', ['--version']))

/** `nftables v1.0.6 (Lester Gooch #5)` to `nft 1.0.6`. */
const nameAndVersion = (text: string): string =>
  `nft ${/v(\d[\w.]*)/.exec(text)?.[1] ?? text.trim()}`

/** As `nftVersion` says it; false where that is no number. */
export const isOlder = (nft: string, than: readonly number[]): boolean => {
  const parts = /\d+(?:\.\d+)*/.exec(nft)?.[0].split('.').map(Number)
  if (parts === undefined) return false
  const at = than.findIndex((part, i) => (parts[i] ?? 0) !== part)
  return at >= 0 && (parts[at] ?? 0) < (than[at] ?? 0)
}

/** Why rules were refused, with the words that `nft` did not understand, or the kernel did not take. */
export const refusalOf = (error: unknown, nft: string): string => {
  if (!(error instanceof Error)) return String(error)
  if (!(error instanceof ToolError) || error.failure !== 'failed') return error.message
  const [first = '', words = ''] = error.stderr.trim().split('\n')
  const said = words === '' ? error.message : `${first}: ${words.trim()}`
  if (/could not process rule/i.test(first)) return `the kernel refused it: ${said}`
  return /syntax error|unknown/i.test(first)
    ? `${nft} is too old: ${said}`
    : error.message
}
