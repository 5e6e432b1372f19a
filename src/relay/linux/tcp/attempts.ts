import { restMs } from '../../dial-errors.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import type { Attempt, Connection } from './connection.ts'

/** The attempts of a connection that are under way. */
export const pendingOf = (connection: Connection): number => {
  let count = 0
  for (const { result } of connection.attempts) if (result === 'pending') count += 1
  return count
}

/** An attempt has come to its end: notes how, and gives back descriptors beyond its share. */
export const settle = (
  { loop, fds }: WorkerEnv,
  attempt: Attempt,
  result: string,
): void => {
  const { connection } = attempt
  attempt.result = result
  attempt.ms = loop.now - attempt.startedAt
  if (connection.extraFds === 0) return
  const spareFds = connection.extraFds - Math.max(pendingOf(connection) - 1, 0)
  if (spareFds <= 0) return
  connection.extraFds -= spareFds
  fds.release(spareFds)
}

/** Ends the attempts that are under way. One that was silent for a step is the endpoint's fault. */
export const endAttempts = (
  env: WorkerEnv,
  connection: Connection,
  result: 'lost' | 'timeout' | 'cancelled',
): void => {
  const [firstStep = 0] = env.limits.dialLadderMs
  for (const attempt of connection.attempts) {
    if (attempt.result !== 'pending') continue
    settle(env, attempt, result)
    if (attempt.fd >= 0) env.fds.close(attempt.fd)
    if (attempt.ms >= firstStep) {
      connection.service.failed(attempt.backend, restMs.silent)
    }
  }
}
