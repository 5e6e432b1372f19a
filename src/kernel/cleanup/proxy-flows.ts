import { forgetProxyFlows } from '../forget-proxy-flows.ts'
import type { RunTool } from '../run-tool.ts'
import type { Kind } from './leftover.ts'

/**
 * Flows to a userspace Usher that is gone. After the rules that make them: else a SYN that
 * comes again makes a new one. Before those that keep the proxy address silent: else it is
 * answered by a reset. No thing by itself, so nothing is said of it.
 */
export const proxyFlowsKind = (run: RunTool): Kind => ({
  name: 'flows to a userspace Usher',
  find: async () => ({
    leftovers: [
      {
        what: [],
        stage: 'flows',
        remove: async () => {
          await forgetProxyFlows(run)
          return []
        },
      },
    ],
    stays: [],
  }),
})
