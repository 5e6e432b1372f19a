import { performance } from 'node:perf_hooks'
import type { Endpoint } from '../services.ts'
import { lineTo } from './line.ts'
import { ErrorCounts } from './load.ts'
import { OneShot } from './one-shot.ts'
import type { FirstConnections, LoadAnswer } from './question.ts'
import { present, Timings } from './timings.ts'

const answerWithinMs = 2000
/** All of them together may take so long, whatever becomes of them. */
const mostMs = 30_000

/** Dials each endpoint once, one after the other. */
export const dialEach = async ({
  to,
  path,
}: Omit<FirstConnections, 'kind'>): Promise<Omit<LoadAnswer, 'seconds'>> => {
  const errors = new ErrorCounts()
  const [connect, latency] = [new Timings(), new Timings()]
  const started = performance.now()
  let done = 0
  for (const [index, endpoint] of to.entries()) {
    if (performance.now() - started > mostMs) {
      errors.add('not tried', to.length - index)
      break
    }
    const failure = await dialOnce(endpoint, path, connect, latency)
    if (failure === '') done += 1
    else errors.add(failure)
  }
  return {
    done,
    errors: errors.counts,
    ...present({ connect: connect.percentiles(), latency: latency.percentiles() }),
    ...(done < to.length && { tried: to.length }),
  }
}

/** '' when it was answered. */
const dialOnce = (
  to: Endpoint,
  path: string,
  connect: Timings,
  latency: Timings,
): Promise<string> =>
  new Promise(resolve => {
    const one = new OneShot(lineTo(to, path), {
      onConnect: ({ dialledAt }, at) => connect.record(at - dialledAt),
      onAnswer: ({ dialledAt }, at) => latency.record(at - dialledAt),
      onEnd: ({ isAnswered }, failure) => {
        clearInterval(sweeper)
        resolve(isAnswered ? '' : failure)
      },
    })
    const sweeper = setInterval(() => one.expire(performance.now(), answerWithinMs), 50)
  })
