import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { nodeTools } from './capture/node-tools.ts'
import { usherIn } from '../support/usher-in.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { startAgent } from '../support/net/agent.ts'
import { writeAgentProgram } from '../support/net/agent-program.ts'
import { startNodeUsher } from '../support/net/node-usher.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { until } from '../support/until.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const setting = 'net.ipv4.conf.all.route_localnet'
const guard = 'block incoming localnet connections'

/**
 * An `iptables-restore` that writes down what the setting is when the rule that guards it is
 * about to be written, and fails then while there is a file `broken`.
 */
const watched = (directory: string): string => `#!/bin/sh
case "$*" in *--version*) exec /usr/sbin/iptables-nft-restore "$@" ;; esac
cat >'${directory}/input'
if grep -q -- '-A KUBE-FIREWALL .*${guard}' '${directory}/input'; then
  cat /proc/sys/net/ipv4/conf/all/route_localnet >>'${directory}/seen'
  if [ -e '${directory}/broken' ]; then echo 'it is broken' >&2; exit 3; fi
fi
exec /usr/sbin/iptables-nft-restore "$@" <'${directory}/input'
`

t.test(
  'node ports on 127.0.0.1 are opened once they are guarded, and closed when they are not',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('localnet')
    const [program, directory, tools] = await Promise.all([
      writeAgentProgram(await tempDirectory(t)),
      tempDirectory(t),
      nodeTools(t, 'nft'),
    ])
    const agent = await startAgent(t, node, program)
    await rm(join(tools, 'iptables-restore'))
    await writeFile(join(tools, 'iptables-restore'), watched(directory), { mode: 0o755 })
    const [broken, seen] = [join(directory, 'broken'), join(directory, 'seen')]
    const value = async () => (await node.run('sysctl', ['-n', setting])).trim()
    const seenBefore = async () => (await readFile(seen, 'utf8')).trim().split('\n')
    const is = (wanted: string) => async () => (await value()) === wanted

    await writeFile(broken, '')
    const web = service('web', '10.96.0.10', [{ name: 'p', port: 80 }])
    const file = await manifestFile(t, web, ...slice('web', [endpoint('10.0.0.2', 8080)]))
    const args = [`--manifests=${file.path}`, '--proxy-mode=iptables']
    const usher = startNodeUsher(t, node, agent, {
      args: [...args, '--log-format=json'],
      tools,
    })
    const hasFailed = async () => (await seenBefore().catch(() => [])).length >= 2
    await until('it has tried and failed', hasFailed)
    t.strictSame(new Set(await seenBefore()), new Set(['0']), 'it was not set before')
    t.equal(await value(), '0', 'nor after')
    await rm(broken)
    await until('it is set', is('1'))
    t.match(await node.run('iptables-save', ['-t', 'filter']), guard)
    t.strictSame(new Set(await seenBefore()), new Set(['0']), 'the rule came first')

    await writeFile(broken, '')
    await node.run('iptables', ['-F', 'KUBE-FIREWALL'])
    // Noticed within seconds, and then it can't be mended.
    await node.run('iptables', ['-F', 'KUBE-SERVICES', '-t', 'nat'])
    await until('it is taken back', is('0'))
    await rm(broken)
    await until('and set once it is guarded again', is('1'), 60_000)
    t.match(await node.run('iptables-save', ['-t', 'filter']), guard)
    usher.send('SIGTERM')
    await usher.exit
    t.equal(await value(), '1', 'as its rule stays')
  },
)

t.test(
  'a primary address that is not known yet does not open the node',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('localnet-none')
    const args = ['--proxy-mode=iptables', '--nodeport-addresses=primary']
    const { out } = await usherIn(node, ['run', '--init-only', ...args])
    t.notMatch(out, 'route_localnet')
    t.equal((await node.run('sysctl', ['-n', setting])).trim(), '0')
  },
)

t.test(
  'nftables mode, which has no node ports on loopback, does not open the node',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('localnet-nft')
    const { out } = await usherIn(node, ['run', '--init-only', '--proxy-mode=nftables'])
    t.match(out, 'nf_conntrack')
    t.notMatch(out, 'route_localnet')
    t.equal((await node.run('sysctl', ['-n', setting])).trim(), '0')
    t.notMatch(await node.run('nft', ['list', 'tables']), /filter/)
  },
)

t.test(
  '--init-only writes the rule before the setting, and keeps what is there',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('localnet-init')
    const rule = ['-s', '192.0.2.1', '-j', 'DROP']
    await node.run('iptables', ['-N', 'KUBE-FIREWALL'])
    await node.run('iptables', ['-A', 'KUBE-FIREWALL', ...rule])
    const run = () => usherIn(node, ['run', '--init-only', '--proxy-mode=iptables'])
    const { code, out } = await run()
    const rules = await node.run('iptables-save', ['-t', 'filter'])
    t.match(rules, new RegExp(`-A KUBE-FIREWALL .*${guard}`))
    t.match(rules, '-A KUBE-FIREWALL -s 192.0.2.1/32 -j DROP')
    t.match(rules, /-A INPUT -j KUBE-FIREWALL[^]*-A OUTPUT -j KUBE-FIREWALL/)
    t.match(out, 'net/ipv4/conf/all/route_localnet = 1')
    // What is the whole host's can't be set in a namespace.
    t.ok(code === 0 || code === 1)
    await run()
    const again = await node.run('iptables-save', ['-t', 'filter'])
    const lines = (text: string) => text.split('\n').filter(line => line.startsWith('-A'))
    t.strictSame(lines(again), lines(rules), 'once')
  },
)
