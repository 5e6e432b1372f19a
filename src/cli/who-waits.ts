import { type ListedPort, listedShape } from '../observe/status.ts'
import { isWildcard, joinHostPort, splitHostPort } from '../util/ip.ts'
import { askPorts } from './ask-usher.ts'
import { clientsWait } from './words.ts'

/** An answer later than that is none. */
const answerMs = 3000

/**
 * What the clients of a route wait for, by the Usher at the metrics address (`host:port`); '' when
 * none of them waits, and when nothing is known of that. `listen`: where a client has connected to
 * (`ip:port`). Never rejects.
 */
export const whoWaits = async (metrics: string, listen: string): Promise<string> => {
  try {
    const where = { controlSocket: '', address: metrics }
    const { servicePorts } = await askPorts(where, listedShape, answerMs)
    const route = servicePorts.find(port => listensAt(port, listen))
    return route === undefined ? '' : waitingText(route)
  } catch {
    return ''
  }
}

const listensAt = ({ protocol, vips }: ListedPort, listen: string): boolean => {
  const port = splitHostPort(listen)?.port
  return (
    protocol === 'TCP' &&
    vips.some(({ vip }) => {
      if (vip === listen) return true
      const own = splitHostPort(vip)
      if (own === undefined || own.port !== port) return false
      return isWildcard(own.host) || joinHostPort(own.host, own.port) === listen
    })
  )
}

const waitingText = (port: ListedPort): string => {
  const { servicePort, held, queued, paused } = port
  if (held === 0)
    return queued === 0 ? '' : `${clientsWait(queued, servicePort)} for a place`
  const what = paused === null ? 'an endpoint' : 'the end of a pause'
  return `${clientsWait(held, servicePort)} for ${what}`
}
