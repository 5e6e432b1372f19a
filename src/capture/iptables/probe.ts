import { randomBytes } from 'node:crypto'
import type { IpFamily } from '../../util/ip.ts'
import type { Backend } from './backend.ts'
import { fixedChains } from './fixed-chains.ts'
import { probeName, tableNames, type TableName } from './names.ts'
import { entriesOf, groups } from './rule-entries.ts'
import type { VipRule } from '../vip-rule.ts'

/**
 * Puts a rule of each kind Usher uses into a chain of its own that no packet comes to, and
 * takes them out again. Rejects with ToolError when the kernel or the tool doesn't know
 * one of them.
 */
export const probeBackend = async (backend: Backend, family: IpFamily): Promise<void> => {
  const name = probeName(randomBytes(4).toString('hex'))
  const text = tableNames.map(table => {
    const lines = sampleLines(table, family).map(line => `-A ${name} ${line}`)
    return `*${table}\n:${name} - [0:0]\n${lines.join('\n')}\nCOMMIT\n`
  })
  const away = tableNames.map(
    table => `*${table}\n:${name} - [0:0]\n-X ${name}\nCOMMIT\n`,
  )
  try {
    await backend.restore(text.join(''))
  } catch (error) {
    // The first table may have been written. Why it failed is to be told, not this.
    await backend.restore(away.join('')).catch(() => {})
    throw error
  }
  await backend.restore(away.join(''))
}

/** All matches and targets, but no jumps to chains that aren't there. */
const sampleLines = (table: TableName, family: IpFamily): readonly string[] => {
  const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1'
  const settings = {
    proxyAddress: address,
    nodePortCidrs: undefined,
    podCidrs: [],
    healthCheckPorts: [1],
  }
  const fixed = fixedChains(settings, family)
    .filter(chain => chain.table === table)
    .flatMap(({ lines }) => lines)
  const rule: VipRule = {
    key: '',
    name: 'default/probe',
    family,
    kind: 'ExternalIP',
    address,
    protocol: 'TCP',
    port: 1,
    to: { address, port: 1 },
    outside: 'drop',
    fromNode: 'drop',
    allowedClients: undefined,
  }
  const entries = [rule, { ...rule, protocol: 'UDP' as const }]
    .flatMap(entriesOf)
    .filter(({ group }) => groups[group].table === table)
  const all = [...fixed, ...entries.map(({ line }) => line)]
  return [...new Set(all.map(line => line.replace(/-j KUBE-\S+$/, '-j RETURN')))]
}
