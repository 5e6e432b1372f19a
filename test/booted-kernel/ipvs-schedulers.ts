import type { Test } from 'tap'
import { serviceNamed } from '../e2e/capture/services.ts'
import { vipOf } from '../e2e/capture/vips.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import type { Agent } from '../support/net/agent.ts'
import type { Machine } from './machine.ts'

/**
 * How connections of one client to one VIP spread over three endpoints of weight 1. Hashes
 * of addresses have nothing to spread then; `mh` is made to count the port in.
 */
interface Scheduler {
  readonly name: string
  readonly spreads: 'equally' | 'to one' | 'to several'
}

export const schedulers: readonly Scheduler[] = [
  ...['rr', 'wrr', 'lc', 'wlc', 'sed', 'nq'].map(
    name => ({ name, spreads: 'equally' }) as const,
  ),
  ...['dh', 'sh', 'lblc'].map(name => ({ name, spreads: 'to one' }) as const),
  { name: 'mh', spreads: 'to several' },
]

/** Each of three endpoints twice. */
const rounds = 6
const plain = serviceNamed('plain')
const to = { protocol: 'TCP', ...vipOf.ClusterIP(plain, 'IPv4') } as const

export const schedulersSpread = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  for (const { name, spreads } of schedulers) {
    await machine.syncIpvs(name)
    const counts = await dials[spreads](agents['pod-1'])
    t.comment(`${name}: ${[...counts].map(each => each.join(' ')).join(', ')}`)
    if (spreads === 'equally')
      t.strictSame([...counts.values()], [2, 2, 2], `${name} spreads equally`)
    else if (spreads === 'to one') t.equal(counts.size, 1, `${name} takes one endpoint`)
    else t.ok(counts.size > 1, `${name} takes several endpoints`)
  }
}

type Counts = ReadonlyMap<string, number>

const whileOpen = async (client: Agent): Promise<Counts> => {
  const answers: string[] = []
  const open = []
  for (let round = 0; round < rounds; round += 1) {
    const conversation = await client.open(to)
    open.push(conversation)
    answers.push(await conversation.ask())
  }
  await Promise.all(open.map(conversation => conversation.close()))
  return counted(answers)
}

const oneByOne = async (client: Agent): Promise<Counts> => {
  const answers: string[] = []
  for (let round = 0; round < rounds; round += 1)
    answers.push((await client.dial(to, 20_000)).backend)
  return counted(answers)
}

/** More of them: with few, chance could take them all to one. */
const atOnce = async (client: Agent): Promise<Counts> => {
  const all = Array.from({ length: rounds * 2 }, () => client.dial(to, 20_000))
  return counted((await Promise.all(all)).map(({ backend }) => backend))
}

const counted = (answers: readonly string[]): Counts => {
  const counts = new Map<string, number>()
  for (const answer of answers) counts.set(answer, (counts.get(answer) ?? 0) + 1)
  return counts
}

/** `lblc` takes another endpoint while one has several connections. */
const dials = { equally: whileOpen, 'to one': oneByOne, 'to several': atOnce } as const
