import type { AnswerOf } from '../observe/control-protocol.ts'
import type { Cells } from './columns.ts'
import { count, forPeople } from './words.ts'

type Explained = AnswerOf<'explain'>
type Endpoint = Explained['endpoints'][number]
type Pick = Explained['picks'][number]

export const endpointsTable: Cells = ['ENDPOINT', 'WOULD SERVE', 'WHY']

/** Where the client would go, in lines: workers that would give it the same are told together. */
export const wouldGet = (answer: Explained): readonly string[] => {
  const { picks, capture, endpoints, verdict, balance, affinityMs } = answer
  if (verdict.action === 'refuse' || verdict.action === 'drop') return ['nothing']
  if (capture === 'kernel') {
    const drawn = endpoints.filter(({ serves }) => serves).length
    const before = affinityMs > 0 ? ', or by affinity the one where it was before' : ''
    return [`one of ${drawn}, as the kernel draws (${balance} mode)${before}`]
  }
  const groups = new Map<string, Pick[]>()
  for (const pick of picks) {
    const words = pickWords(pick, answer)
    groups.set(words, [...(groups.get(words) ?? []), pick])
  }
  const [only] = groups.keys()
  if (groups.size === 1 && only !== undefined) return [only]
  const lines = Array.from(groups, ([words, alike]) => {
    const workers = alike.map(({ worker }) => worker).join(', ')
    return `${words} in worker ${workers}`
  })
  return [
    ...lines,
    'each worker has turns of its own; the kernel chooses one by client and port',
  ]
}

const pickWords = (pick: Pick, { balance }: Explained): string => {
  const { outcome, endpoints, affinity, waitMs, why } = pick
  if (outcome === 'waits' || outcome === 'queues')
    return `nothing at once: it waits for up to ${forPeople(waitMs)}`
  if (outcome === 'refused') return `nothing (${why})`
  const [first = '', ...others] = endpoints
  if (affinity !== null && first === affinity.endpoint && others.length === 0)
    return `${first} (where it was before, by affinity until ${clock(affinity.until)})`
  if (others.length > 0)
    return `one of ${endpoints.join(', ')} (${chances[balance] ?? 'by chance'})`
  return `${first} (${sure[balance] ?? 'the only one'})`
}

const chances: Readonly<Record<string, string>> = {
  random: 'by chance and weight',
  'least-connections': 'by chance, the one with fewer connections before',
}

const sure: Readonly<Record<string, string>> = {
  'round-robin': 'the next in turn',
  'least-connections': 'the fewest connections',
  maglev: "the client's own by maglev",
}

/** `12:03:04`, of this host's day. */
const clock = (iso: string): string => new Date(iso).toTimeString().slice(0, 8)

export const endpointRow = (one: Endpoint, answer: Explained, now: number): Cells => {
  const why = [...whyOf(one, now), ...(one.next ? ['next'] : [])]
  if (one.chance !== null) why.push(`1 of ${Math.round(1 / one.chance)}`)
  if (one.serves && one.failures > 0)
    why.push('the next connection tries it, as it had failed')
  const serves = one.serves
    ? answer.verdict.action === 'forward'
      ? 'yes'
      : 'it could'
    : 'no'
  return [one.endpoint, serves, why.join('; ')]
}

const whyOf = (one: Endpoint, now: number): readonly string[] => {
  const { reason, drained, failure, check, restsUntil, mostConnections } = one
  switch (reason) {
    case '':
      return []
    case 'down':
      return [`down by its check${check ? `: ${check}` : ''}`]
    case 'not ready':
      return [`not ready${check ? `: ${check}` : ''}`]
    case 'not on this node':
      return [`not on this node${one.node === '' ? '' : `, but on ${one.node}`}`]
    case 'hinted elsewhere':
      return [
        `topology hints keep it for others${one.zone === '' ? '' : `; it is in zone ${one.zone}`}`,
      ]
    case 'drained':
      return [`drained by order${drained?.until ? ` until ${clock(drained.until)}` : ''}`]
    case 'other clients':
      return ['for other clients only']
    case 'not listed':
      return ['left out: it leads back to this Service, or is not applied yet']
    case 'not known':
      return ['no worker of the relay tells of it']
    case 'full':
      return [`has ${one.connections} of ${mostConnections ?? 0} connections`]
    case 'tier':
      return [`tier ${one.tier}: used when those of lower tiers fail`]
    case 'weight':
      return ['weight 0: used when the others fail']
    case 'resting':
      return [restWords(restsUntil, one, failure, now)]
    default:
      return [reason]
  }
}

const restWords = (
  until: string | null,
  { tried, failures }: Endpoint,
  failure: Endpoint['failure'],
  now: number,
): string => {
  const how = tried ? 'a connection tries it' : 'rests'
  const last = failure
    ? `: ${failure.why} ${forPeople(now - Date.parse(failure.at))} ago`
    : ''
  const times = failures > 1 ? `, ${count(failures, 'time')} in a row` : ''
  return `${how} until ${until === null ? 'now' : clock(until)}${last}${times}`
}
