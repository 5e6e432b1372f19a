import type { Backend } from './backend.ts'

/**
 * What `iptables -S` prints of some chains of one table, by one process that reads no
 * other. A chain is its name, or `NAME NUMBER` for one rule of it. Rejects with ToolError,
 * also when one of them is not there.
 */
export const showChains = (
  backend: Pick<Backend, 'restore'>,
  table: string,
  chains: Iterable<string>,
): Promise<string> => {
  const shows = Array.from(chains, chain => `-S ${chain}`)
  return backend.restore(`*${table}\n${shows.join('\n')}\nCOMMIT\n`)
}
