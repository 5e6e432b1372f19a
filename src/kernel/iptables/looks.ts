import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { boundClients, type Look } from '../proxier.ts'
import { type Context, portalKindNames, portalKinds, serviceRules } from './full-rules.ts'
import { safe } from './service.ts'

/** Chains of Services that a line may lead to, but for those of endpoints. */
const chainPattern = /-[jg] (KUBE-(?:SVC|SVL|EXT|FW)-[A-Z2-7]+)/

/** The list of an endpoint's clients. */
const recentPattern = /-m recent --name (\S+) --rcheck/

/** By the rules that are written: names of chains don't depend on settings. */
export const iptablesLooks = (servicePort: ServicePort, vip: Vip): readonly Look[] => {
  const { family } = servicePort
  const rules = serviceRules({ ...servicePort, vips: [vip] }, { ...plain, family })
  const save = family === 'IPv4' ? 'iptables-save' : 'ip6tables-save'
  const lines = portalKindNames.flatMap(kind =>
    rules[kind].map(line => ({ ...portalKinds[kind], line })),
  )
  const entries = lines.map(({ table, chain, line }) => ({
    what: `${table} ${chain}: ${/-j (\S+)$/.exec(line)?.[1] ?? ''}`,
    command: `${save} -t ${table} | grep -F -- '-A ${chain} ' | grep -F '${safe(servicePort.name)}'`,
  }))
  const led = new Set(lines.flatMap(({ line }) => chainPattern.exec(line)?.[1] ?? []))
  const lists = new Set<string>()
  // A set is gone through with what is added meanwhile.
  for (const name of led)
    for (const line of rules.chains.find(one => one.name === name)?.lines ?? []) {
      const [next, list] = [chainPattern, recentPattern].map(one => one.exec(line)?.[1])
      if (next !== undefined) led.add(next)
      if (list !== undefined) lists.add(list)
    }
  const chains = [...led].map(chain => ({
    what: `nat ${chain}`,
    command: `${save} -t nat | grep ${chain}`,
  }))
  const bound = [...lists].map(list => ({
    what: `${boundClients}: list ${list}`,
    command: `cat /proc/net/xt_recent/${list}`,
  }))
  return [...entries, ...chains, ...bound]
}

const plain: Omit<Context, 'family'> = {
  masquerade: undefined,
  ifLocal: [],
  countsLocalhost: false,
  isLarge: false,
}
