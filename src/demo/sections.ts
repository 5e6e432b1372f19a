import type { AddressPort } from '../util/ip.ts'
import type { Protocol } from '../model/service.ts'
import { askTcpEcho, askUdpEcho, askHttp, type Answer } from './clients.ts'
import { backendsOf, servicePortOf, targetOf, textOfTarget, type Stage } from './stage.ts'

/** Something the demo promised to show, and whether it was there to see. */
export interface Expectation {
  /** What should be so, as a sentence without its full stop. */
  readonly name: string
  readonly ok: boolean
  /** What was seen instead; '' when all is well. */
  readonly reason: string
}

/** One part of the show: what was done, what came of it, and whether that was right. */
export interface Section {
  readonly title: string
  readonly lines: readonly string[]
  readonly expectation: Expectation
}

/**
 * An expectation from its possible faults, in the order of their weight: the first one
 * that is true is the reason.
 */
const expectation = (
  name: string,
  faults: readonly (readonly [broken: boolean, reason: string])[],
): Expectation => {
  const fault = faults.find(([broken]) => broken)
  return { name, ok: fault === undefined, reason: fault?.[1] ?? '' }
}

const messages = 10
const requests = 30

const echoRows = (stage: Stage, protocol: Protocol, { byBackend }: Tally) =>
  backendsOf(stage, 'echo', protocol).map(({ name }) => ({
    name: `${protocol}  ${name}`,
    count: byBackend.get(name) ?? 0,
  }))

/** TCP and UDP clients of `echo` use the same address and port number. */
export const echo = async (stage: Stage): Promise<Section> => {
  const [tcpTarget, udpTarget] = [targetOf(stage, 'echo'), targetOf(stage, 'echo', 'UDP')]
  const [tcp, udp] = await Promise.all([
    askTogether(messages, () => askTcpEcho(tcpTarget)),
    askTogether(messages, () => askUdpEcho(udpTarget)),
  ])
  const [tcpText, udpText] = [textOfTarget(tcpTarget), textOfTarget(udpTarget)]
  const where =
    tcpText === udpText
      ? `both to ${tcpText}`
      : `to ${tcpText} (TCP) and ${udpText} (UDP)`
  const counts = [...echoRows(stage, 'TCP', tcp), ...echoRows(stage, 'UDP', udp)]
  const vip = (protocol: Protocol): string =>
    servicePortOf(stage, 'echo', protocol).vips[0]?.vip ?? 'none'
  const idle = counts.find(({ count }) => count === 0)?.name
  return {
    title: 'TCP and UDP share a port number',
    lines: [
      `${messages} TCP connections and ${messages} UDP datagrams, ${where}`,
      ...bars(counts),
    ],
    expectation: expectation('all messages come back, over TCP and over UDP', [
      [tcp.failed > 0, failures(tcp, 'TCP connections')],
      [udp.failed > 0, failures(udp, 'UDP datagrams')],
      [vip('TCP') !== vip('UDP'), `TCP is at ${vip('TCP')}, UDP at ${vip('UDP')}`],
      [
        idle !== undefined,
        `${idle} got nothing; TCP: ${shares(tcp)}; UDP: ${shares(udp)}`,
      ],
    ]),
  }
}

/** One backend of `flaky` is dead: Usher tries another, and clients never notice. */
export const flaky = async (stage: Stage): Promise<Section> => {
  const target = targetOf(stage, 'flaky')
  const retries = async (): Promise<number> => {
    await stage.look()
    return servicePortOf(stage, 'flaky', 'TCP').retries ?? 0
  }
  const before = await retries()
  const counted = await askTogether(requests, () => askHttp(target))
  const retried = (await retries()) - before
  const backends = backendsOf(stage, 'flaky')
  const dead = backends.filter(one => one.dead).map(({ name }) => name)
  const rows = backends.map(({ name, dead: isDead }) => ({
    name,
    count: counted.byBackend.get(name) ?? 0,
    note: isDead ? 'dead: nothing listens there' : '',
  }))
  return {
    title: 'A dead backend goes unnoticed',
    lines: [
      `${requests} requests to http://${textOfTarget(target)}`,
      ...bars(rows),
      `${counted.failed} failed; Usher retried ${retried === 1 ? 'once' : `${retried} times`} on another backend, then left the dead one out`,
    ],
    expectation: expectation('no request fails, though a backend is dead', [
      [counted.failed > 0, failures(counted, 'requests')],
      [dead.length === 0, 'no backend of flaky is dead, there is nothing to notice'],
      [retried === 0, `Usher counts no retry: does anything listen for ${dead.join()}?`],
    ]),
  }
}

/** Requests to `web` are spread over its backends. */
export const spread = async (stage: Stage): Promise<Section> => {
  const target = targetOf(stage, 'web')
  const counted = await askTogether(requests, () => askHttp(target))
  const names = backendsOf(stage, 'web').map(({ name }) => name)
  const counts = names.map(name => ({ name, count: counted.byBackend.get(name) ?? 0 }))
  // Half a fair share: another client may be using the Service at the same time.
  const least = requests / names.length / 2
  return {
    title: 'Requests are spread over the backends',
    lines: [`${requests} requests to http://${textOfTarget(target)}`, ...bars(counts)],
    expectation: expectation(
      'all requests are answered, and every backend has its share',
      [
        [counted.failed > 0, failures(counted, 'requests')],
        [
          names.length < 2,
          `web has ${names.length} backends, there is nothing to spread`,
        ],
        [counts.some(({ count }) => count < least), `the shares are ${shares(counted)}`],
      ],
    ),
  }
}

const requestsEach = 6

/** One after the other: a client sticks to a backend once it has been served by it. */
const askInTurn = async (target: AddressPort, client: string): Promise<Tally> => {
  const answers: Answer[] = []
  while (answers.length < requestsEach) {
    const answer = await askHttp(target, client)
    answers.push(answer)
    if ('error' in answer) break
  }
  return tally(answers)
}

const row = (client: string, { byBackend, failed }: Tally): string => {
  const seen = [...byBackend].map(([name, count]) => `${name} ×${count}`)
  const all = [...seen, ...(failed > 0 ? ['failed'] : [])]
  return `${client.padEnd(11)} → ${all.join(', ')}`
}

/** Each client of `sticky` stays with the backend it had first. */
export const sticky = async (stage: Stage): Promise<Section> => {
  const target = targetOf(stage, 'sticky')
  const clients = stage.clientAddresses
  const seen: (readonly [client: string, Tally])[] = []
  for (const client of clients) {
    const counted = await askInTurn(target, client)
    seen.push([client, counted])
    if (counted.failed > 0) break
  }
  const failed = seen.find(([, counted]) => counted.failed > 0)
  const strayed = seen.find(([, counted]) => counted.byBackend.size > 1)
  const used = new Set(seen.flatMap(([, { byBackend }]) => [...byBackend.keys()]))
  const backends = backendsOf(stage, 'sticky').length
  const from = clients.length === 1 ? '1 client' : `each of ${clients.length} clients`
  const name =
    clients.length === 1
      ? 'the client stays with one backend'
      : 'every client stays with one backend, not all with the same'
  return {
    title: 'A sticky Service keeps each client on one backend',
    lines: [
      `${requestsEach} requests from ${from} to http://${textOfTarget(target)}`,
      ...seen.map(([client, counted]) => row(client, counted)),
    ],
    expectation: expectation(name, [
      [failed !== undefined, failed ? failures(failed[1], 'requests') : ''],
      [backends < 2, `sticky has ${backends} backends, there is no choice to stick to`],
      [
        strayed !== undefined,
        strayed ? `${strayed[0]} was answered by ${shares(strayed[1])}` : '',
      ],
      [
        clients.length > 1 && used.size < 2,
        `all clients were sent to ${[...used].join()}`,
      ],
    ]),
  }
}

/** Answers, counted. */
interface Tally {
  readonly asked: number
  readonly failed: number
  /** Why the first that failed did; '' when none has. */
  readonly firstError: string
  readonly byBackend: ReadonlyMap<string, number>
}

const tally = (answers: readonly Answer[]): Tally => {
  const byBackend = new Map<string, number>()
  let failed = 0
  let firstError = ''
  for (const answer of answers) {
    if ('backend' in answer) {
      byBackend.set(answer.backend, (byBackend.get(answer.backend) ?? 0) + 1)
    } else {
      failed += 1
      firstError ||= answer.error
    }
  }
  return { asked: answers.length, failed, firstError, byBackend }
}

/** `web-1 10, web-2 20`, or `none`. */
const shares = ({ byBackend }: Tally): string =>
  [...byBackend].map(([name, count]) => `${name} ${count}`).join(', ') || 'none'

/** `3 of 30 requests failed (connect ECONNREFUSED ...)`. */
const failures = (counted: Tally, what: string): string =>
  `${counted.failed} of ${counted.asked} ${what} failed (${counted.firstError})`

/** Asks `count` times at once. */
const askTogether = async (count: number, ask: () => Promise<Answer>): Promise<Tally> =>
  tally(await Promise.all(Array.from({ length: count }, ask)))

interface Bar {
  readonly name: string
  readonly count: number
  readonly note?: string
}

const widest = 30

/** A row for each: the name, a bar to scale (at most 30 wide), the count and the note. */
export const bars = (rows: readonly Bar[]): string[] => {
  const names = Math.max(...rows.map(({ name }) => name.length))
  const most = Math.max(1, ...rows.map(({ count }) => count))
  const scale = Math.min(1, widest / most)
  const digits = String(most).length
  return rows.map(({ name, count, note = '' }) => {
    const bar = '█'.repeat(count === 0 ? 0 : Math.max(1, Math.round(count * scale)))
    const space = ' '.repeat(Math.round(most * scale) - bar.length)
    const number = String(count).padStart(digits)
    return `${name.padEnd(names)}  ${bar}${space}  ${number}  ${note}`.trimEnd()
  })
}
