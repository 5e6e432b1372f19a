import { askHttp, type Answer, type Target } from '../clients.ts'
import { expectation, type Section } from '../expectation.ts'
import { backendsOf, targetOf, textOfTarget, type Stage } from '../stage.ts'
import { failures, shares, tally, type Tally } from '../tally.ts'

const requestsEach = 6

/** One after the other: a client sticks to a backend once it has been served by it. */
const askInTurn = async (target: Target, client: string): Promise<Tally> => {
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
