import { serveHttp } from './http.ts'
import { findClosedPorts, keepSilentPort } from './unanswering-ports.ts'
import { serveSink, serveSource } from './streams.ts'
import { serveUdp } from './udp.ts'
import { answerParent } from '../process/child.ts'

/** What a backend process is asked, once. */
export interface PodQuestion {
  readonly listenAddress: string
  /** Whether it serves `http` too, because nginx does not. */
  readonly http: boolean
}

export interface PodAnswer {
  /** 0 when it was not asked for. */
  readonly http: number
  readonly source: number
  readonly sink: number
  readonly udp: number
  readonly silent: number
  readonly closed: readonly number[]
}

answerParent(async (question): Promise<PodAnswer> => {
  const { listenAddress, http } = question as PodQuestion
  return {
    closed: await findClosedPorts(listenAddress),
    silent: await keepSilentPort(listenAddress),
    http: http ? await serveHttp(listenAddress) : 0,
    source: await serveSource(listenAddress),
    sink: await serveSink(listenAddress),
    udp: await serveUdp(listenAddress),
  }
})
