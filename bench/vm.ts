import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { writeResults } from './outputs.ts'
import { parseRecord, type RunRecord } from './record/record.ts'
import { machineProblem } from '../test/booted-kernel/kernel.ts'
import {
  type Launched,
  type Machine,
  startMachine,
} from '../test/booted-kernel/machine.ts'

/*
 * `usher bench` inside of a machine that is booted for it, with a kernel that has ip_vs.
 * The machine is emulated: what is slow there is not what is slow elsewhere, so that only
 * ratios tell something, and of those only large ones.
 */

/** What rules and virtual servers of the modes need (the kernel loads nothing by itself). */
const modules = `crc32c_generic veth dummy
  nf_conntrack nf_conntrack_netlink nf_tables nft_compat nft_chain_nat
  xt_nat xt_addrtype xt_comment xt_conntrack xt_mark xt_tcpudp xt_set xt_statistic
  xt_recent xt_MASQUERADE ipt_REJECT ip6t_REJECT
  ip_vs ip_vs_rr ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip
  ip_set_hash_ipportnet ip_set_bitmap_port`.split(/\s+/)

/** Who is compared, in what, for how long. */
const targets = 'direct,usher-linux,usher-mode-iptables,usher-mode-ipvs,haproxy'
const only = 'requests-32,connections,download-1,udp-64-16,retry,first-1000'
const defaults = { targets, only, rounds: '3', seconds: '2' }

/** The machine ends by itself soon after. */
const mostSeconds = 450
const output = 'results'
const program = fileURLToPath(new URL('../dist/usher.js', import.meta.url))
const outputThere = '/mnt/results'

const main = async (argv: readonly string[]): Promise<number> => {
  const why = machineProblem()
  if (why !== '') {
    console.error(`bench:vm: ${why}`)
    return 1
  }
  const closers: (() => unknown)[] = []
  try {
    console.error('booting a machine')
    const machine = await startMachine(ownerOf(closers), 2)
    await machine.load(...modules)
    const call = ['bench', ...withDefaults(argv), `--output=${outputThere}`]
    const bench = await machine.launch(process.execPath, program, ...call)
    const code = await ended(bench)
    const record = await recordIn(machine)
    if (record === undefined) return code || 1
    console.log(writeResults(marked(record, argv), output).join('\n'))
    return code
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

/** Lists that are given twice would add up. */
const withDefaults = (argv: readonly string[]): readonly string[] => [
  ...Object.entries(defaults)
    .filter(([name]) => !argv.some(arg => arg.split('=')[0] === `--${name}`))
    .map(([name, value]) => `--${name}=${value}`),
  ...argv,
]

const ownerOf = (closers: (() => unknown)[]): Parameters<typeof startMachine>[0] => ({
  testdir: () => {
    const folder = mkdtempSync(join(tmpdir(), 'usher-bench-vm-'))
    closers.push(() => rmSync(folder, { recursive: true, force: true }))
    return folder
  },
  teardown: close => void closers.push(close),
})

/** Shows what it writes until it has ended; asks it to end when that takes too long. */
const ended = async (bench: Launched): Promise<number> => {
  let shown = 0
  for (let second = 0; ; second += 1) {
    const { text, code } =
      second < mostSeconds ? await bench.log() : await bench.end('SIGINT')
    process.stdout.write(text.slice(shown))
    shown = text.length
    if (code !== undefined) return code
    await sleep(1000)
  }
}

const recordIn = async (machine: Machine): Promise<RunRecord | undefined> => {
  const { out } = await machine.try('find', outputThere, '-name', '*.json')
  const [file] = out.trim().split('\n')
  return file ? parseRecord(await machine.run('cat', file), file) : undefined
}

/** Says where it was measured, so that the figures are not taken for a real machine's. */
const marked = (record: RunRecord, argv: readonly string[]): RunRecord => ({
  ...record,
  title: `${record.title}, in an emulated machine`,
  command: ['npm run bench:vm', ...(argv.length > 0 ? ['--', ...argv] : [])].join(' '),
  setting: [
    [
      'Emulated',
      'two processors emulated by qemu, without KVM: only ratios tell something, and system calls and copying cost more here than they do elsewhere',
    ],
    ...record.setting,
  ],
})

process.exitCode = await main(process.argv.slice(2))
