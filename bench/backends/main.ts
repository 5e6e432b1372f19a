import { answerCalls } from '../process/child.ts'
import {
  findClosedPorts,
  keepSilentPort,
  serveHttp,
  serveSink,
  serveSource,
  serveUdp,
} from './servers.ts'

/** Serves all that a pod has, and tells at which ports; `http` only where nginx doesn't. */
const serve = async (address: string, withHttp: boolean) => ({
  closed: await findClosedPorts(address),
  silent: await keepSilentPort(address),
  http: withHttp ? await serveHttp(address) : 0,
  source: await serveSource(address),
  sink: await serveSink(address),
  udp: await serveUdp(address),
})

const calls = { serve }
export type PodCalls = typeof calls
answerCalls(calls)
