import {
  type AddressKind,
  ipv4Routes,
  ipv6OnLoopback,
  ipv6Routes,
} from '../host-addresses/address-kind.ts'
import { listOf, runIpBatch } from '../host-addresses/ip-tool.ts'
import type { RunTool } from '../run-tool.ts'
import { type Kind, nothing, type Stay } from './leftover.ts'

const routeLine = (cidr: string): string => `route local ${cidr} dev lo`
const addressLine = (cidr: string): string => `address ${cidr} on lo`

/** Routes and addresses that bear Usher's mark, by which it made them this host's own. */
export const markedAddressKinds = (run: RunTool): readonly Kind[] => [
  markedKind(run, 'local IPv4 routes', routeLine, ipv4Routes),
  markedKind(run, 'local IPv6 routes', routeLine, ipv6Routes),
  markedKind(run, 'IPv6 addresses', addressLine, ipv6OnLoopback),
]

const markedKind = (
  run: RunTool,
  name: string,
  lineOf: (cidr: string) => string,
  kind: AddressKind,
): Kind => ({
  name,
  find: async () => {
    const lines = (await listOf(run, kind.list)).split('\n')
    const cidrs = lines.flatMap(line => kind.marked(line) ?? [])
    if (cidrs.length === 0) return nothing
    const remove = async () => {
      // The youngest first: the kernel's list begins with them.
      const order = cidrs.toReversed()
      const errors = await runIpBatch(run, order.map(kind.remove))
      return Array.from(errors, ([index, why]): Stay => ({
        what: lineOf(order[index] ?? ''),
        why,
      }))
    }
    return { leftovers: [{ what: cidrs.map(lineOf), remove }], stays: [] }
  },
})
