import type { Test } from 'tap'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { RuleSet } from '../../support/iptables-tracer/rule-set.ts'
import { type Packet, told, trace } from '../../support/iptables-tracer/trace.ts'
import { addresses, nodePortOf, type ServiceKind } from './service-kinds.ts'

const columns = ['cluster IP', 'external IP', 'load balancer', 'node port'] as const

type Column = (typeof columns)[number]

/** Where a client of Service n dials. */
export const destinationOf = (
  column: Column,
  n: number,
  family: IpFamily,
): Pick<Packet, 'destination' | 'port'> => {
  const { clusterIp, externalIp, balancerIp, node } = addresses[family]
  const all = {
    'cluster IP': { destination: clusterIp(n), port: 80 },
    'external IP': { destination: externalIp(n), port: 80 },
    'load balancer': { destination: balancerIp(n), port: 80 },
    'node port': { destination: node, port: nodePortOf(n) },
  }
  return all[column]
}

/** Pods of this node come by a bridge, all others from the wire. */
export const clientsOf = (
  family: IpFamily,
): ReadonlyMap<string, Pick<Packet, 'source' | 'inInterface' | 'nodeAddresses'>> => {
  const { pod, farPod, outside, stranger, node } = addresses[family]
  const nodeAddresses = [node]
  return new Map([
    ['pod', { source: pod, inInterface: 'cbr0', nodeAddresses }],
    ['far pod', { source: farPod, inInterface: 'eth0', nodeAddresses }],
    ['outside', { source: outside, inInterface: 'eth0', nodeAddresses }],
    ['stranger', { source: stranger, inInterface: 'eth0', nodeAddresses }],
    ['node', { source: node, inInterface: '', nodeAddresses }],
  ])
}

/** A cell of a table, as the tracer says it. */
export const expectedOf = (cell: string, n: number, family: IpFamily): string => {
  const plan = addresses[family]
  const [, which = '', star] = /^(any|local|remote)(\*?)$/.exec(cell) ?? []
  if (which === '') return cell
  const all = [
    ...(which === 'remote' ? [] : [plan.local(n)]),
    ...(which === 'local' ? [] : [plan.remote(n)]),
  ]
  const text = (address: string) =>
    `${family === 'IPv6' ? `[${address}]` : address}:8080${star === '*' ? ' (masqueraded)' : ''}`
  return all.map(text).toSorted().join(' ')
}

/** Asserts all of a table: what becomes of each client's packet to each of the VIPs. */
export const checkPackets = (
  t: Test,
  rules: RuleSet,
  { protocol = 'TCP', packets }: Pick<ServiceKind, 'protocol' | 'packets'>,
  n: number,
  family: IpFamily,
): void => {
  const [head = '', ...rows] = packets.trim().split('\n')
  if (cellsOf(head).join() !== columns.join()) throw new Error(head)
  const clients = clientsOf(family)
  const wanted: string[] = []
  const found: string[] = []
  for (const row of rows) {
    const [name = '', ...cells] = cellsOf(row)
    const client = clients.get(name)
    if (client === undefined || cells.length !== columns.length) throw new Error(row)
    for (const [i, column] of columns.entries()) {
      const packet: Packet = {
        ...client,
        ...destinationOf(column, n, family),
        protocol: protocol === 'UDP' ? 'udp' : 'tcp',
      }
      const from = `${name} to the ${column}: `
      wanted.push(from + expectedOf(cells[i] ?? '', n, family))
      found.push(from + told(trace(rules, packet)))
    }
  }
  if (rows.length !== clients.size) throw new Error('a client is missing')
  t.equal(found.join('\n'), wanted.join('\n'))
}

const cellsOf = (row: string): string[] => row.trim().split(/ {2,}/)
