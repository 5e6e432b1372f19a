import { readFile } from 'node:fs/promises'
import t from 'tap'
import {
  canonicalText,
  restore,
  type RuleSet,
} from '../../support/iptables-tracer/rule-set.ts'
import { type Situation, textOf } from './golden-world.ts'
import { situations } from './situations.ts'

const read = (name: string): Promise<string> =>
  readFile(new URL(`./golden/${name}.txt`, import.meta.url), 'utf8')

/** Services come before the rule that says of itself that it must be the last. */
const nodePortsLast = (rules: RuleSet): RuleSet => {
  const chain = rules.get('nat')?.get('KUBE-SERVICES')
  if (chain === undefined) throw new Error('no KUBE-SERVICES')
  const isLast = ({ text }: { readonly text: string }) =>
    text.endsWith('-j KUBE-NODEPORTS')
  chain.rules = [
    ...chain.rules.filter(rule => !isLast(rule)),
    ...chain.rules.filter(isLast),
  ]
  return rules
}

/** Golden files but for the two bases say what is other than in the base. */
const expected = async (name: string, { family }: Situation): Promise<string> => {
  const base = family === 'IPv6' ? 'base-ipv6' : 'base'
  const rules = restore(await read(base))
  return canonicalText(
    name === base ? rules : nodePortsLast(restore(await read(name), rules)),
  )
}

for (const [name, situation] of Object.entries(situations))
  t.test(`chains and rules are those of golden/iptables/${name}.txt`, async t => {
    t.equal(canonicalText(restore(textOf(situation))), await expected(name, situation))
  })
