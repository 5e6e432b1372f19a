import t from 'tap'
import { chooseBackend } from '../../../src/kernel/xtables/choose-backend.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { makeWorld, skip } from './world.ts'

const system = (run: RunTool, own: 'nft' | 'legacy'): RunTool => {
  // As update-alternatives has it.
  const real = (command: string) =>
    command.replace(/^(ip6?tables)(?=-(?:save|restore)$)/, `$1-${own}`)
  return (command, ...rest) => run(real(command), ...rest)
}

for (const table of ['mangle', 'nat'])
  for (const native of ['ct state new accept', 'meta mark set 1'])
    t.test(
      `others' chains in a table that can't be listed: ${table}, ${native}`,
      { skip },
      async t => {
        const { run } = await makeWorld({ hasBoth: true })
        const chain = table === 'mangle' ? 'KUBE-KUBELET-CANARY' : 'KUBE-POSTROUTING'
        await run('iptables-nft', ['-t', table, '-N', chain])
        await run('iptables-nft', ['-t', table, '-A', 'OUTPUT', '-j', 'ACCEPT'])
        await run('nft', [`insert rule ip ${table} OUTPUT ${native}`])
        const { chosen } = await chooseBackend(system(run, 'legacy'), 'IPv4', 'auto')
        t.equal(chosen.mode, 'nft')
      },
    )

t.test('a look that took too long says nothing', { skip }, async t => {
  const { run } = await makeWorld({ hasBoth: true })
  const hangs: RunTool = (command, ...rest) =>
    command.endsWith('-save')
      ? Promise.reject(new ToolError(`${command}: ended after 1 ms`, 'timeout', ''))
      : run(command, ...rest)
  await t.rejects(chooseBackend(system(hangs, 'nft'), 'IPv4', 'auto'), /ended after/)
})
