import { readdirSync, readFileSync } from 'node:fs'
import { runTool } from '../../src/kernel/run-tool.ts'
import { answerParent } from '../process/child.ts'
import { spending } from '../modes/usage.ts'
import { Led, vip } from './led.ts'
import type { ChangesDone, DeadDone, FirstDone, LedQuestion } from './protocol.ts'
import { type NamedServer, serveNames, whoAnswers } from './servers.ts'

/* Leads its own connects, in the cgroup of its first argument and a network namespace of its own. */

interface Opened {
  readonly led: Led
  readonly servers: readonly [NamedServer, NamedServer]
}

let opened: Opened | undefined

const answer = async (
  question: LedQuestion,
): Promise<FirstDone | ChangesDone | DeadDone> => {
  if (question.do === 'first') return first(question.services, question.endpoints)
  if (opened === undefined) throw new Error('there was no first sync')
  return question.do === 'changes'
    ? changes(opened, question.count)
    : dead(opened, question.connects)
}

const first = async (services: number, endpoints: number): Promise<FirstDone> => {
  await runTool('ip', ['link', 'set', 'lo', 'up'])
  const [one, other] = await serveNames(['127.0.0.2', '127.0.0.3'])
  if (one === undefined || other === undefined) throw new Error('nobody serves')
  const led = await new Promise<Led>(resolve => {
    const made: Led = new Led(process.argv[2] ?? '', services, endpoints, () =>
      resolve(made),
    )
  })
  const snapshot = led.snapshot([one])
  const spent = spending()
  await led.sync(snapshot)
  const { wallMs, cpuMs } = spent()
  opened = { led, servers: [one, other] }
  return { wallMs, cpuMs, kernelBytes: memoryOfMaps() }
}

/** As the kernel books it on maps (Documentation/bpf, bpf_map_show_fdinfo). */
const memoryOfMaps = (): number => {
  let bytes = 0
  for (const descriptor of readdirSync('/proc/self/fdinfo'))
    try {
      const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
      if (info.includes('map_type:'))
        bytes += Number(/^memlock:\s+(\d+)$/m.exec(info)?.[1] ?? 0)
    } catch {
      // That of the folder itself is closed by now.
    }
  return bytes
}

const changes = async (
  { led, servers: [one, other] }: Opened,
  count: number,
): Promise<ChangesDone> => {
  const writtenMs: number[] = []
  const seenMs: number[] = []
  for (let n = 0; n < count; n += 1) {
    const next = n % 2 === 0 ? other : one
    const changedAt = performance.now()
    await led.sync(led.snapshot([next]))
    writtenMs.push(performance.now() - changedAt)
    const who = await whoAnswers(vip.address, vip.port)
    if (who !== next.address) throw new Error(`a connect came to ${who ?? 'nobody'}`)
    seenMs.push(performance.now() - changedAt)
  }
  return { writtenMs, seenMs }
}

/** One after the other: what a failure costs, the next ones know. */
const dead = async (
  { led, servers: [one, other] }: Opened,
  connects: number,
): Promise<DeadDone> => {
  await led.sync(led.snapshot([one, other]))
  other.close()
  const startedAt = performance.now()
  let failed = 0
  for (let n = 0; n < connects; n += 1)
    if ((await whoAnswers(vip.address, vip.port)) === undefined) failed += 1
  return { connects, failed, seconds: (performance.now() - startedAt) / 1000 }
}

answerParent(question => answer(question as LedQuestion))
