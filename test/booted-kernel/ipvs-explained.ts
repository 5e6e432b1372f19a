import type { Test } from 'tap'
import { boundClients } from '../../src/kernel/proxier.ts'
import type { AnswerOf } from '../../src/observe/control-protocol.ts'
import { families } from '../e2e/capture/objects.ts'
import { serviceNamed } from '../e2e/capture/services.ts'
import { vipOf } from '../e2e/capture/vips.ts'
import { addressOf, type BackendName, backendPort } from '../support/net/addresses.ts'
import { joinHostPort } from '../../src/util/ip.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import type { Machine } from './machine.ts'
import { askUsher, metricsPort } from './usher.ts'

type Answer = AnswerOf<'explain'>

const client = { IPv4: addressOf['pod-1'].IPv4, IPv6: addressOf['pod-1'].IPv6 } as const

/** What `usher explain` names is looked up by the commands that it gives. A Usher of ipvs mode runs. */
export const whatIsExplainedIsThere = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  const explain = async (
    name: string,
    family: 'IPv4' | 'IPv6',
    vip: keyof typeof vipOf = 'ClusterIP',
  ): Promise<Answer> => {
    const { address, port } = vipOf[vip](serviceNamed(name), family)
    const to = joinHostPort(address, port)
    const query = new URLSearchParams({ client: client[family], address: to })
    const path = `/explain?${query.toString()}`
    return JSON.parse(
      (await machine.node.get('127.0.0.1', metricsPort, path)).body,
    ) as Answer
  }
  const shown = (command: string): Promise<string> => machine.run('sh', '-c', command)
  /** Of each virtual server that is named, the endpoints that ipvsadm shows. */
  const serversOf = async ({ looks }: Answer): Promise<string[][]> => {
    const servers = looks.filter(({ what }) => what.startsWith('virtual server '))
    const texts: string[] = []
    for (const { command } of servers) texts.push(await shown(command))
    return texts.map(text =>
      Array.from(text.matchAll(/^ +-> (\S+:\d+) /gm), ([, to = '']) => to).toSorted(),
    )
  }
  const serving = ({ endpoints }: Answer): string[] =>
    endpoints
      .filter(({ serves }) => serves)
      .map(({ endpoint }) => endpoint)
      .toSorted()

  for (const answer of [
    await explain('plain', 'IPv4'),
    await explain('plain', 'IPv6', 'external IP'),
    await explain('internal-local', 'IPv4'),
  ]) {
    t.match(answer.verdict, { action: 'forward' }, answer.address)
    t.strictSame(await serversOf(answer), [serving(answer)], answer.address)
  }
  const nodePort = await explain('plain', 'IPv4', 'node port, first address')
  const lists = await serversOf(nodePort)
  t.ok(lists.length > 1, 'a virtual server at each address of the node')
  for (const list of lists) t.strictSame(list, serving(nodePort))

  const none = await explain('no-endpoints', 'IPv4')
  t.match(none.verdict, { action: 'refuse' })
  t.strictSame(await serversOf(none), [[]])
  const dropped = await explain('internal-local-none', 'IPv4')
  t.match(dropped.verdict, { action: 'drop' })
  t.match(dropped.looks, [{ what: /^set KUBE-CLUSTER-IP-DROP, / }, {}])
  // ipset(8) exits 1 where the entry is not there.
  for (const { command } of dropped.looks) t.comment(await shown(command))

  for (const family of families) {
    const to = vipOf.ClusterIP(serviceNamed('sticky'), family)
    const { backend } = await agents['pod-1'].dial({ protocol: 'TCP', ...to }, 20_000)
    const sticky = await explain('sticky', family)
    t.match(sticky.notes, [/by affinity is not read/])
    const bound = sticky.looks.find(({ what }) => what.startsWith(boundClients))
    const lines = (await shown(bound?.command ?? 'false')).split('\n')
    const own = lines.filter(line => line.includes(joinHostPort(client[family], 0)))
    t.equal(own.length, 1, lines.join('\n'))
    const endpoint = joinHostPort(addressOf[backend as BackendName][family], backendPort)
    t.match(own[0], endpoint)
  }

  const vip = vipOf.ClusterIP(serviceNamed('plain'), 'IPv4')
  const to = joinHostPort(vip.address, vip.port)
  const { code, out, err } = await askUsher(machine, 'explain', client.IPv4, to)
  t.equal(code, 0, err)
  const command = /^virtual server .*\n +(ipvsadm .*)$/m.exec(out)?.[1]
  t.match(await shown(command ?? 'false'), /Masq/, out)
}
