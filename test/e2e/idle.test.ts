// A process of its own: long, and it mostly waits.
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { runTool } from '../../src/kernel/run-tool.ts'
import { service, slice } from '../support/manifests.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { runningIn } from '../support/usher-in.ts'
import { usherProgram } from '../support/usher-program.ts'

t.jobs = 3

const noTools = await netnsProblem('iptables', 'xtables-monitor', 'nft', 'ip')
const backend = noTools === '' ? await runTool('iptables', ['--version']) : ''
const why =
  noTools ||
  (backend.includes('nf_tables') ? '' : 'the kernel tells nobody of iptables-legacy')
const families = ['iptables', 'ip6tables'].flatMap(tool =>
  ['', '-save', '-restore'].flatMap(work => [`${tool}${work}`, `${tool}-nft${work}`]),
)
const tools = [...families, 'xtables-monitor', 'nft', 'ip', 'conntrack', 'cat', 'nsenter']
/** Stands before a tool in PATH: writes a line for each start. */
const wrapper = (log: string): string => `#!/bin/sh
echo "$$ \${0##*/} $*" >> '${log}'
exec "$(PATH=\${PATH#*:}; command -v "\${0##*/}")" "$@"
`
/** Two looks at what other programs may change. */
const quietMs = 9000

for (const mode of ['iptables', 'nftables', 'userspace'])
  t.test(
    `a node at rest starts no process: ${mode} mode`,
    { skip: why !== '' && why },
    async t => {
      const bin = t.testdir({ log: '', bin: {} })
      const log = join(bin, 'log')
      for (const tool of tools) {
        const file = join(bin, 'bin', tool)
        await writeFile(file, wrapper(log))
        await chmod(file, 0o755)
      }
      const objects = [
        service('web', '10.96.0.9', [{ name: 'p', port: 80 }]),
        ...slice('web', [{ key: 'a', address: '192.0.2.7', port: 8080 }]),
      ]
      const manifests = join(bin, 'objects.json')
      await writeFile(
        manifests,
        JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
      )
      const ns = await makeNetns('idle')
      const end = await runningIn(
        ns,
        [usherProgram, 'run', `--manifests=${manifests}`, `--proxy-mode=${mode}`],
        /"serving"/,
        `${join(bin, 'bin')}:${process.env['PATH'] ?? ''}`,
      )
      t.teardown(end)
      let [last, since] = ['', 0]
      await until(
        'no tool is started for a while',
        async () => {
          const now = await readFile(log, 'utf8')
          if (now !== last) [last, since] = [now, performance.now()]
          return performance.now() - since > quietMs
        },
        60_000,
      )
      t.match(last, /-restore|nft -f/, 'tools were started before')
    },
  )
