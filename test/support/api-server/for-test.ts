import type { Test } from 'tap'
import { ApiServer, type ApiServerOptions } from './server.ts'

/** An API server that is gone when the test ends. */
export const startApiServer = async (
  t: Test,
  options: ApiServerOptions = {},
): Promise<ApiServer> => {
  const server = await ApiServer.start(options)
  t.teardown(() => server.close())
  return server
}
