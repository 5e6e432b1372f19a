import type { Clock, Timer } from '../util/clock.ts'
import { askHttp, openUdpClient, type Answer } from './clients.ts'
import { targetOf, type Stage } from './stage.ts'
import { messageOf } from '../util/usher-error.ts'

/** 20 requests a second. */
const paceMs = 50

/** What the demo's own traffic came to. */
interface Outcome {
  asked: number
  failed: number
}

const failureOf = (error: unknown): Answer => ({
  error: messageOf(error),
})

/**
 * Keeps the figures moving, gently, and is the proof that killing a backend fails no
 * request: every failure is shown. `stop` resolves when the last request has its answer.
 */
export const startBackground = (
  stage: Pick<Stage, 'status'>,
  clock: Clock,
  onFailure: (text: string) => void,
): { readonly outcome: Readonly<Outcome>; stop(): Promise<void> } => {
  const udp = openUdpClient()
  const outcome: Outcome = { asked: 0, failed: 0 }
  const underway = new Set<Promise<void>>()
  const ask = async (service: string, asking: () => Promise<Answer>): Promise<void> => {
    outcome.asked += 1
    // A Service that was taken out of the manifest has no target: that is a failure too.
    const answer = await asking().catch(failureOf)
    if (!('error' in answer)) return
    outcome.failed += 1
    onFailure(`a request to ${service} failed: ${answer.error}`)
  }
  const track = (asked: Promise<void>): void => {
    underway.add(asked)
    void asked.finally(() => underway.delete(asked))
  }
  const services = ['web', 'flaky', 'web', 'sticky'] as const
  let turn = 0
  let timer: Timer | undefined
  const step = (): void => {
    timer = clock.setTimeout(step, paceMs)
    const service = services[turn++ % services.length] ?? 'web'
    track(ask(service, async () => askHttp(targetOf(stage, service))))
    if (turn % services.length === 0)
      track(ask('echo', async () => udp.ask(targetOf(stage, 'echo', 'UDP'))))
  }
  step()
  return {
    outcome,
    stop: async () => {
      clock.clearTimeout(timer)
      await Promise.all(underway)
      udp.close()
    },
  }
}
