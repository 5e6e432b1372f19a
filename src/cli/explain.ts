import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { balancePolicyOf } from '../model/balance-policies.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { triedAllTheSame } from '../page/service-words.ts'
import { familyOf, splitHostPort } from '../util/ip.ts'
import { isUnix, unixPeer } from '../util/unix-address.ts'
import { askCommand, exitCodeOf } from './ask-usher.ts'
import { tableLines, type Cells } from './text-table.ts'
import { documentText } from './document-text.ts'
import { apiVersion } from './json-documents.ts'
import { type Io, forPeople, servedText, visible, count } from './io.ts'

type Explained = AnswerOf<'explain'>

/** `usher explain`: 0 when the client would be forwarded, 1 when not; 3 when no Usher answers. */
export const explain = (options: OptionsOf<'explain'>, io: Io): Promise<number> => {
  const { dialled, protocol, output } = options
  const [client, address] = asked(dialled)
  return exitCodeOf('explain', io, async () => {
    const answer = await askCommand(options, 'explain', { client, address, protocol })
    const document = { apiVersion, kind: 'Explanation', ...answer }
    if (output === '') print(answer, io)
    else io.out(await documentText(document, output))
    return answer.verdict.action === 'forward' ? 0 : 1
  })
}

/** Who dials a unix socket has no address, and need not be told. */
const asked = (
  dialled: readonly string[],
): readonly [client: string, address: string] => {
  const [socket = ''] = dialled
  const [client, address, ...others] =
    dialled.length === 1 && isUnix(socket) ? [unixPeer, socket] : dialled
  if (client === undefined || address === undefined || others.length > 0)
    throw wrongCall('expected two arguments')
  if (familyOf(client) === undefined && client !== unixPeer)
    throw wrongCall(`${JSON.stringify(client)} is not an IP address`)
  if (!isUnix(address) && splitHostPort(address) === undefined)
    throw wrongCall(`${JSON.stringify(address)} is not an address with a port`)
  return [client, address]
}

const wrongCall = (reason: string): UsageError =>
  new UsageError(
    `${reason}; give the address of a client, and the address and port that it dials, like usher explain 10.0.3.7 10.96.0.10:80`,
    'explain',
  )

const print = (answer: Explained, io: Io): void => {
  const { client, address, protocol, route, addressKind, verdict } = answer
  const { affinityMs, looks, notes, state, reason } = answer
  const rows = [
    ['verdict', `${verdict.action}: ${verdict.why}`],
    ['state', reason === '' ? state : `${state}: ${reason}`],
    ['served', servedText({ ...answer, kind: addressKind })],
    ['affinity', affinityMs === 0 ? 'none' : `ClientIP, ${forPeople(affinityMs)}`],
    ...wouldGet(answer).map((line, i) => [i === 0 ? 'would get' : '', line]),
    ...notes.map(note => ['note', note]),
  ]
  io.out(
    `${visible(`${client} -> ${address} (${protocol}) is ${route}, ${addressKind}`)}\n`,
  )
  for (const [name = '', text = ''] of rows)
    io.out(`${name.padEnd(11)}${visible(text)}\n`)
  const now = Date.now()
  const endpoints = answer.endpoints.map(one => endpointRow(one, answer, now))
  if (endpoints.length === 0) io.out('It has no endpoints.\n')
  else
    for (const line of tableLines([endpointsTable, ...endpoints], io.colour))
      io.out(`${line}\n`)
  for (const { what, command } of looks)
    io.out(`${visible(what)}\n  ${visible(command)}\n`)
}

type Endpoint = Explained['endpoints'][number]
type Pick = Explained['picks'][number]

const endpointsTable: Cells = ['ENDPOINT', 'WOULD SERVE', 'WHY']

/** Where the client would go, in lines: workers that would give it the same are told together. */
export const wouldGet = (answer: Explained): readonly string[] => {
  const { picks, capture, endpoints, verdict, balance, affinityMs } = answer
  if (verdict.action === 'refuse' || verdict.action === 'drop') return ['nothing']
  if (capture === 'kernel') {
    const drawn = endpoints.filter(({ serves }) => serves).length
    const before = affinityMs > 0 ? ', or by affinity the one where it was before' : ''
    return [`one of ${drawn}, chosen by the kernel (${balance} mode)${before}`]
  }
  const groups = new Map<string, Pick[]>()
  for (const pick of picks) {
    const description = pickText(pick, answer)
    groups.set(description, [...(groups.get(description) ?? []), pick])
  }
  const [only] = groups.keys()
  if (groups.size === 1 && only !== undefined) return [only]
  const lines = Array.from(groups, ([description, alike]) => {
    const workers = alike.map(({ worker }) => worker).join(', ')
    return `${description} in worker ${workers}`
  })
  return [
    ...lines,
    'each worker has turns of its own; the kernel chooses one by client and port',
  ]
}

const pickText = (pick: Pick, { balance }: Explained): string => {
  const { outcome, endpoints, affinity, waitMs, why } = pick
  if (outcome === 'waits' || outcome === 'queues')
    return `none yet: it waits for up to ${forPeople(waitMs)}`
  if (outcome === 'refused') return `nothing (${why})`
  const [first = '', ...others] = endpoints
  const policy = balancePolicyOf(balance)
  if (affinity !== null && first === affinity.endpoint && others.length === 0)
    return `${first} (where it was before, by affinity until ${clock(affinity.until)})`
  if (others.length > 0)
    return `one of ${endpoints.join(', ')} (${policy?.drawn ?? 'by chance'})`
  return `${first} (${policy?.picked ?? 'the only one'})`
}

/** `12:03:04`, of this host's day. */
const clock = (iso: string): string => new Date(iso).toTimeString().slice(0, 8)

const endpointRow = (one: Endpoint, answer: Explained, now: number): Cells => {
  const reason = [...reasonsOf(one, now), ...(one.next ? ['next'] : [])]
  if (one.serves && one.isDown) reason.unshift(`down, ${triedAllTheSame}`)
  if (one.serves && one.check) reason.push(`its check: ${one.check}`)
  if (one.chance !== null) reason.push(`1 of ${Math.round(1 / one.chance)}`)
  if (one.serves && one.failures > 0)
    reason.push('the next connection retries it after its failure')
  const serves = one.serves
    ? answer.verdict.action === 'forward'
      ? 'yes'
      : 'it could'
    : 'no'
  return [one.endpoint, serves, reason.join('; ')]
}

/** By the reason that an endpoint does not serve. */
const reasons: Readonly<Record<string, (one: Endpoint, now: number) => string>> = {
  down: ({ check }) => `down by its check${check ? `: ${check}` : ''}`,
  'not ready': ({ check }) => (check ? `down by its check: ${check}` : 'not ready'),
  'not on this node': ({ node }) =>
    `not on this node${node === '' ? '' : `, but on ${node}`}`,
  'hinted elsewhere': ({ zone }) =>
    `topology hints keep it for others${zone === '' ? '' : `; it is in zone ${zone}`}`,
  drained: ({ drained }) =>
    `drained by order${drained?.until ? ` until ${clock(drained.until)}` : ''}`,
  'other clients': () => 'for other clients only',
  'not listed': () => 'left out: it leads back to this Service, or is not applied yet',
  'not known': () => 'no worker of the relay reports it',
  full: one => `has ${one.connections} of ${one.mostConnections ?? 0} connections`,
  tier: ({ tier }) => `tier ${tier}: used when those of lower tiers fail`,
  weight: () => 'weight 0: used when the others fail',
  'cooling down': (one, now) => cooldownText(one, now),
}

const reasonsOf = (one: Endpoint, now: number): readonly string[] =>
  one.reason === '' ? [] : [reasons[one.reason]?.(one, now) ?? one.reason]

const cooldownText = (
  { cooldownUntil: until, tried, failures, failure }: Endpoint,
  now: number,
): string => {
  const how = tried ? 'a connection tries it' : 'cools down'
  const last = failure
    ? `: ${failure.why} ${forPeople(now - Date.parse(failure.at))} ago`
    : ''
  const times = failures > 1 ? `, ${count(failures, 'time')} in a row` : ''
  return `${how} until ${until === null ? 'now' : clock(until)}${last}${times}`
}
