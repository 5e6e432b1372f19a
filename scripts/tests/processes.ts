import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * What begins first, as it takes longest (a folder by one of its files): the run should not end
 * with one that is alone. Those that are exact about time come after those that need the
 * processors.
 */
const longest = [
  'test/e2e/mode-slow-changes.test.ts',
  'test/e2e/swap.test.ts',
  'test/e2e/capture-restarts.test.ts',
  'test/e2e/hybrid-life.test.ts',
  'test/e2e/capture-ports.test.ts',
  'test/e2e/mode-falls.test.ts',
  'test/kernel/nftables/kill.test.ts',
  'test/relay/one-client.test.ts',
  'test/bench/command/usher-bench.test.ts',
  'test/bench/command/usher-bench-ends.test.ts',
  'test/e2e/mode-hybrid.test.ts',
  'test/e2e/mode-nftables.test.ts',
  'test/e2e/udp-flows.test.ts',
  'test/e2e/mode-iptables.test.ts',
  'test/capture/iptables/unreadable.test.ts',
  'test/kernel/cleanup/clean-up.host.test.ts',
  'test/e2e/connect-time-restarts.test.ts',
  'test/e2e/udp-flows-end.test.ts',
  'test/e2e/changing-rules.test.ts',
  'test/e2e/capture-iptables.test.ts',
  'test/e2e/capture-nftables.test.ts',
  'test/e2e/sctp.test.ts',
  'test/relay/portable-tcp.test.ts',
  'test/relay/linux-tcp.test.ts',
  'test/relay/linux-dial.test.ts',
  'test/relay/linux-udp.test.ts',
  'test/relay/portable-dial.test.ts',
  'test/relay/linux-control.test.ts',
  'test/relay/portable-udp.test.ts',
]

/** The comment of a file that can't share a process, followed by the reason. */
const alone = /^\/\/ A process of its own: /m

const testsBelow = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.test.ts'))
    .map(name => `${folder.replace(/\/$/, '')}/${name}`)
    .toSorted()

const rank = (files: readonly string[]): number => {
  const place = longest.findIndex(file => files.includes(file))
  return place === -1 ? longest.length : place
}

/**
 * Which files run together. A process takes half a second of processor time to start: files of
 * a folder share one, those apart that say so. A file that is asked for by name has its own.
 */
export const processesOf = (asked: readonly string[]): readonly (readonly string[])[] => {
  const [folders, files] = [true, false].map(wanted =>
    asked.filter(path => statSync(path).isDirectory() === wanted),
  ) as [string[], string[]]
  const groups = new Map<string, string[]>(files.map(file => [file, [file]]))
  for (const file of folders.flatMap(testsBelow)) {
    const group = alone.test(readFileSync(file, 'utf8')) ? file : dirname(file)
    groups.set(group, [...(groups.get(group) ?? []), file])
  }
  return [...groups.values()].toSorted((a, b) => rank(a) - rank(b))
}
