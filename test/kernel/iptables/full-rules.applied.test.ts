import t from 'tap'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { canonicalText, restore } from '../../support/iptables-tracer/rule-set.ts'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { netnsProblem } from '../../support/netns.ts'
import { changesOf, serviceKinds } from './service-kinds.ts'
import { situations } from './situations.ts'
import { textOf } from './golden-world.ts'

const why = await netnsProblem('iptables')
const skip = { skip: why !== '' && why }

/** The real tools of one back end and family, in a namespace of their own. */
const toolsIn = (run: RunTool, backend: string, family: IpFamily) => {
  const name = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`
  return {
    /** In the place of all that is there. */
    apply: (input: string) => run(`${name}-restore`, ['--counters'], { input }),
    saved: async () => restore(await run(`${name}-save`, [])),
  }
}

// Where packets go by the same text is shown without a kernel.
for (const [backend, family] of [
  ['nft', 'IPv4'],
  ['nft', 'IPv6'],
  ['legacy', 'IPv4'],
  ['legacy', 'IPv6'],
] as const)
  t.test(
    `the kernel takes all rules as they are (${backend}, ${family})`,
    skip,
    async t => {
      const run = await makeNetnsShell()
      const { apply, saved } = toolsIn(run, backend, family)
      const changes = serviceKinds.flatMap((kind, i) => changesOf(kind, i + 1, family))
      const text = textOf({ changes, family })
      await apply(text)
      t.equal(canonicalText(await saved()), canonicalText(restore(text)))
    },
  )

t.test("the kernel takes every situation's rules", skip, async t => {
  const run = await makeNetnsShell()
  for (const [name, situation] of Object.entries(situations)) {
    // Hardly any kernel has it; xt_nfacct's rules can't be tried.
    if (situation.features?.nfacct === true) continue
    const { apply, saved } = toolsIn(run, 'nft', situation.family ?? 'IPv4')
    const text = textOf(situation)
    await apply(text)
    t.equal(canonicalText(await saved()), canonicalText(restore(text)), name)
  }
})
