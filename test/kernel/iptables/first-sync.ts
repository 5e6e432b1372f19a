import { fullRules } from '../../../src/kernel/iptables/full-rules.ts'
import { fullText } from './full-text.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { canonicalText, restore } from '../../support/iptables-tracer/rule-set.ts'
import { settings, snapshotOf } from './world.ts'

const features = { randomFully: true, conntrackLiberal: false, nfacct: false, sctp: true }
const tables = ['filter', 'nat'] as const

/**
 * All of filter and nat after a first sync of these ServicePorts, beside others' rules:
 * worked out, and without an order.
 */
export const firstSync = (servicePorts: readonly ServicePort[]): readonly string[] => {
  const rules = fullRules(snapshotOf(servicePorts), settings, features)
  return linesOf([fullText(rules)])
}

/** The same of what iptables-save printed; `others`: rules that are not to be told. */
export const linesOf = (saved: readonly string[], others = ''): readonly string[] => {
  const theirs = new Set(sorted(others))
  return sorted(saved.join('')).filter(line => !theirs.has(line))
}

const sorted = (text: string): readonly string[] => {
  const rules = restore(text)
  return tables.flatMap(table =>
    canonicalText(new Map([[table, rules.get(table) ?? new Map()]]))
      .split('\n')
      .map(line => `${table}: ${line}`)
      .filter(line => !/(?:\*|:[A-Z]+ ACCEPT)/.test(line))
      .toSorted(),
  )
}
