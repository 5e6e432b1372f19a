import { answerParent } from '../process/child.ts'
import type { Ports } from './backend.ts'
import { serveEcho } from './echo.ts'
import { serveOneShot } from './one-shot.ts'
import { serveSink } from './sink.ts'
import { serveSource } from './source.ts'
import { serveUdpEcho } from './udp-echo.ts'

/** The backend process: starts every backend and answers with their ports. */
answerParent(async (): Promise<Ports> => ({
  echo: await serveEcho(),
  'one-shot': await serveOneShot(),
  source: await serveSource(),
  sink: await serveSink(),
  'udp-echo': await serveUdpEcho(),
}))
