import type { LogTo } from '../../targets/receiver.ts'
import { connections } from '../connections.ts'
import { costs, rate, windowAndSettling } from '../metrics.ts'
import type { Scenario } from '../scenario.ts'

/** What a line for each connection costs, beside HAProxy with the same lines. */
const accessLog = (to: LogTo): Scenario => ({
  name: to === 'file' ? 'access-log' : `access-log-${to}`,
  group: 'sidecar',
  title: `${connections.title}; a line for each, to ${to}`,
  about: `New connections with an access log in the form of HAProxy's tcplog, ${
    to === 'file'
      ? 'to a file; HAProxy has one by its standard output'
      : 'a datagram for each to a syslog server on the same node'
  }.`,
  metrics: [rate('conn/s', 'Connections'), ...costs('CPU s/100k', 1)],
  goals: [
    {
      target: `sidecar-log-${to}`,
      metric: 'rate',
      to: `haproxy-log-${to}`,
      atLeast: 1,
    },
  ],
  targets: [`sidecar-log-${to}`, `haproxy-log-${to}`],
  expectedSeconds: windowAndSettling,
  run: connections.run,
})

export const accessLogScenarios = (['file', 'syslog'] as const).map(accessLog)
