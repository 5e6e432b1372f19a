import type { FullRules } from '../../../src/kernel/iptables/full-rules.ts'

/** As input of `iptables-restore --noflush`, for a kernel that has none of it. */
export const fullText = (rules: FullRules): string => {
  const jumps = { mangle: [], ...rules.jumps }
  let text = ''
  for (const table of ['mangle', 'filter', 'nat'] as const) {
    text += `*${table}\n`
    for (const { name } of rules[table]) text += `:${name} - [0:0]\n`
    for (const { name, lines } of rules[table])
      for (const line of lines) text += `-A ${name} ${line}\n`
    for (const { chain, line } of jumps[table]) text += `-I ${chain} ${line}\n`
    text += 'COMMIT\n'
  }
  return text
}
