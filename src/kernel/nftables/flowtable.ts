import { type RunTool, ToolError } from '../run-tool.ts'
import { probeTable } from '../nft/tables.ts'
import type { Problem } from '../../model/snapshot.ts'
import type { IpFamily } from '../../util/ip.ts'

/** The name of the flowtable in the table. */
const flowtableName = 'services'

/**
 * Packets of connections that stand are forwarded from one of these devices to another past
 * all hooks, routing and conntrack (nft(8), FLOWTABLES).
 */
export const flowtableText = (table: string, devices: readonly string[]): string => {
  const names = devices.map(device => `"${device}"`).join(', ')
  return `add flowtable ${table} ${flowtableName} { hook ingress priority 0; devices = { ${names} }; }\n`
}

/** Of Services only: what others forward is others' to say. */
export const flowRule = `ct state established ct status & dnat != 0 meta l4proto { 6, 17 } flow add @${flowtableName}`

/** '' where there can be one for these devices. Nothing is written. */
export const whyNoFlowtable = async (
  run: RunTool,
  family: IpFamily,
  devices: readonly string[],
): Promise<string> => {
  const table = probeTable(family)
  const input = [
    `add table ${table}\n`,
    flowtableText(table, devices),
    `add chain ${table} forward { type filter hook forward priority 0; }\n`,
    `add rule ${table} forward ${flowRule}\n`,
  ].join('')
  try {
    await run('nft', ['--check', '-f', '-'], { input })
    return ''
  } catch (error) {
    if (!(error instanceof ToolError) || error.failure !== 'failed') throw error
    return whyText(error)
  }
}

/** Without the place in the input, which nobody sees; with what it may mean. */
const whyText = ({ stderr, message }: ToolError): string => {
  const line =
    stderr
      .trim()
      .split('\n')[0]
      ?.replace(/^\S*\d: (Error: )?/, '') || message
  return /No such file/.test(line)
    ? `${line} (the kernel lacks nf_flow_table, or a device is not there)`
    : line
}

export const flowtableProblem = (family: IpFamily, why: string): Problem => ({
  object: 'flowtable',
  field: family,
  message: `--nftables-flowtable-devices: there is none, because of: ${why}`,
})
