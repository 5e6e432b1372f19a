import { demoError } from './plan.ts'
import type { StatusDocument } from '../observe/status.ts'
import type { Clock } from '../util/clock.ts'

const patienceMs = 5000
const pollEveryMs = 20

/**
 * The status in which Usher listens for every VIP.
 * @throws DEMO when a port is taken, or when it is not so within 5 s.
 */
export const untilListening = async (
  proxy: { status(): Promise<StatusDocument> },
  clock: Clock,
): Promise<StatusDocument> => {
  const until = clock.now() + patienceMs
  for (;;) {
    const status = await proxy.status()
    const { servicePorts } = status
    const all = servicePorts.flatMap(({ servicePort, vips }) =>
      vips.map(vip => ({ ...vip, servicePort })),
    )
    const failed = all.find(({ state }) => state === 'failed')
    if (failed) throw demoError(reasonOf(failed))
    const waiting = all.filter(({ state }) => state !== 'listening')
    if (all.length > 0 && waiting.length === 0) return status
    if (clock.now() >= until) {
      const names = waiting.map(({ vip, state, reason }) => `${vip} (${reason || state})`)
      throw demoError(
        `Usher does not listen after 5 s on ${names.join(', ') || 'any VIP'}`,
      )
    }
    await new Promise<void>(resolve => clock.setTimeout(resolve, pollEveryMs))
  }
}

const reasonOf = (failed: {
  readonly vip: string
  readonly listen: string
  readonly reason: string
  readonly servicePort: string
}): string => {
  const where = failed.listen || failed.vip
  return /EADDRINUSE|in use/.test(failed.reason)
    ? portInUse(where, `the VIP of ${failed.servicePort}`)
    : `Usher can't listen on ${where} for ${failed.servicePort}: ${failed.reason}`
}

/**
 * Says that a port is taken. Two demos use the same addresses, so another one is the
 * likeliest reason.
 */
export const portInUse = (address: string, wantedBy: string): string =>
  `${address} (${wantedBy}) is already in use.\n` +
  '  Is another demo running? Stop it, or whatever else listens there, and try again.'
