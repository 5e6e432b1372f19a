// A process of its own: it takes both processors for seconds.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { chanceOf } from '../kernel/connect-time/random-services.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import { beginLoad, failed, now } from './connect-time/load.ts'
import { makeStage, skip, sliceAt, whoAnswers } from './connect-time/stage.ts'

const forMs = 7000
const addresses = Array.from({ length: 6 }, (_, i) => `127.0.0.${11 + i}`)
/** It moves its port with each change: who finds it there knows that the change is in force. */
const mark = '10.96.0.9'
/** Of what begins so soon after the mark was seen nothing is demanded. */
const graceMs = 100

interface Round {
  /** When Usher could know of it at the earliest. */
  readonly written: number
  /** When it was seen in force. */
  readonly seen: number
  readonly endpoints: ReadonlySet<string>
}

t.test('no connect fails or is led to what is gone', { skip }, async t => {
  const seed = Date.now() % 1_000_000
  t.comment(`seed ${seed}`)
  const chance = chanceOf(seed)
  const stage = await makeStage(t)
  const { client, manifests } = stage
  const servers = await stage.group.client(stage.node)
  const port = await servers.serve(addresses[0] ?? '')
  for (const each of addresses.slice(1)) await servers.serve(each, port)
  const p = [{ name: 'p', port: 80 }]
  const sticky = { sessionAffinity: 'ClientIP' }
  const rounds: Round[] = []
  const next = async (): Promise<void> => {
    const some = addresses.filter(() => chance(2) === 1)
    const endpoints = some.length === 0 ? addresses.slice(0, 1) : some
    const markPort = 1 + rounds.length
    const written = now()
    await manifests.write(
      service('web', '10.96.0.1', p),
      sliceAt('web', endpoints, port),
      service('sticky', '10.96.0.2', p, sticky),
      sliceAt('sticky', endpoints, port),
      service('mark', mark, [{ name: 'p', port: markPort }]),
      sliceAt('mark', addresses.slice(0, 1), port),
    )
    await until('it is in force', async () => {
      const who = await whoAnswers(client, mark, markPort)
      return who.startsWith('127.')
    })
    rounds.push({ written, seen: now(), endpoints: new Set(endpoints) })
  }
  await manifests.write(service('web', '10.96.0.1', p))
  await stage.lead(t)
  await next()
  const began = now()
  const ends = [
    await beginLoad(t, stage, ['10.96.0.1 80', '10.96.0.2 80']),
    await beginLoad(t, stage, ['10.96.0.2 80', '10.96.0.1 80']),
  ]
  while (now() < began + forMs) {
    await next()
    await sleep(chance(5) * graceMs)
  }
  const took = now() - began
  const connects = (await Promise.all(ends.map(end => end()))).flat()

  t.same(failed(connects).slice(0, 3), [], 'none has failed')
  // From when a change was surely in force until the next one can have been.
  const demanded = connects.flatMap(connect => {
    const round = rounds.find(
      ({ seen }, i) =>
        connect.began > seen + graceMs &&
        connect.ended < (rounds[i + 1]?.written ?? Number.POSITIVE_INFINITY),
    )
    return round === undefined ? [] : [{ ...connect, round }]
  })
  const strays = demanded.filter(({ who, round }) => !round.endpoints.has(who))
  t.same(strays.slice(0, 3), [], 'none was led to an endpoint that had gone')
  const slowest = Math.max(...rounds.map(({ written, seen }) => seen - written))
  t.comment(
    `${rounds.length} changes in ${Math.round(took)} ms, in force within ${Math.round(slowest)} ms; ` +
      `${connects.length} connects, ${demanded.length} of them between changes`,
  )
  t.ok(rounds.length > 3 && demanded.length > 100, 'enough was seen')
})
