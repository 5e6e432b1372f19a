import { joinHostPort } from '../util/ip.ts'
import { listenAdvice } from '../util/listen-advice.ts'
import type { Traffic } from './traffic.ts'

/**
 * Addresses of Services that nobody can dial now, each with the reason: those that are none
 * of this host's, and those that can't be bound.
 */
export const notListening = ({ mode, dataPath }: Traffic): readonly string[] => {
  const foreign = mode.placements.flatMap(({ servicePort: { protocol }, vips }) =>
    vips.flatMap(({ vip, capture, reason }) =>
      capture === 'not captured'
        ? [
            `cannot listen on ${protocol} ${joinHostPort(vip.address, vip.port)}: ${reason}`,
          ]
        : [],
    ),
  )
  const failing = dataPath()?.connectionLog.failingBinds.states() ?? []
  const failed = failing.flatMap(state => {
    if (state.state !== 'failed') return []
    const { address, port } = state.bind
    const why = listenAdvice(state.error, 'give another address or port')
    return [`cannot listen on ${joinHostPort(address, port)}: ${state.error}: ${why}`]
  })
  return [...foreign, ...failed]
}
