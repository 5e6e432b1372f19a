import { readSaved } from './saved.ts'
import { textOf, wantedJumps } from './jumps.ts'
import { localnetRule } from './fixed-chains.ts'
import { kubeletFirewall } from './names.ts'
import type { Backend } from '../xtables/backend.ts'

/**
 * Keeps packets from elsewhere away from 127.0.0.0/8, which is to be done before
 * route_localnet is set (CVE-2020-8558), for one who writes no other rules. What else is in
 * the chain stays; one that has the rule is left as it is.
 */
export const guardLocalnet = async (backend: Backend): Promise<void> => {
  const { chains, rules } = await readSaved(await backend.save('filter'), 'filter')
  const texts = new Set(rules.map(({ text }) => text))
  const guard = `${kubeletFirewall} ${localnetRule}`
  const jumps = wantedJumps(true)
    .filter(({ line }) => line.endsWith(`-j ${kubeletFirewall}`))
    .map(textOf)
  const lines = [
    ...(chains.has(kubeletFirewall) ? [] : [`:${kubeletFirewall} - [0:0]`]),
    ...(texts.has(guard) ? [] : [`-A ${guard}`]),
    ...jumps.filter(text => !texts.has(text)).map(text => `-I ${text}`),
  ]
  if (lines.length > 0) await backend.restore(`*filter\n${lines.join('\n')}\nCOMMIT\n`)
}
