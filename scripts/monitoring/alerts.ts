import { serviceFaults } from './causes.ts'

/** A row of the table of alerts. docs/troubleshooting.md has a heading for each. */
export interface Alert {
  readonly name: string
  readonly severity: 'critical' | 'warning' | 'info'
  /** How long the condition holds before it is told; at once without it. */
  readonly for?: string
  readonly expr: string
  readonly summary: string
  /** May use the labels of the result. */
  readonly description: string
}

/** The label that tells Usher's targets from others, whatever their job is called. */
const target = 'container="usher"'

const byService = 'sum by (service_port, protocol)'
const failures = `${byService} (rate(usher_connections_failed_total{cause=~"${serviceFaults}"}[5m]))`
const retries = `${byService} (rate(usher_dial_retries_total[5m]))`

export const alerts: readonly Alert[] = [
  {
    name: 'UsherDown',
    severity: 'critical',
    for: '15m',
    expr: `up{${target}} == 0 or absent(up{${target}})`,
    summary: 'An Usher does not answer Prometheus, or none is known to it.',
    description:
      'No metrics from Usher at {{ $labels.instance }} for 15 minutes; without an address: from none at all.',
  },
  {
    name: 'UsherUnhealthy',
    severity: 'critical',
    for: '5m',
    expr: 'usher_healthy == 0',
    summary: 'An Usher cannot apply what the cluster wants.',
    description:
      'Usher at {{ $labels.instance }} is red on /healthz for 5 minutes; its /status says why.',
  },
  {
    name: 'UsherNotSynced',
    severity: 'warning',
    for: '5m',
    expr: 'usher_source_ok == 0 or usher_source_age_seconds > 300',
    summary: 'An Usher serves an old state.',
    description:
      'Usher at {{ $labels.instance }} cannot read its source (the API server, or files); the last good state is served.',
  },
  {
    name: 'UsherListenersFailed',
    severity: 'warning',
    for: '5m',
    expr: 'usher_listeners{state="failed"} > 0',
    summary: 'An Usher cannot listen on addresses of Services.',
    description:
      'Usher at {{ $labels.instance }} cannot listen on {{ $value }} addresses; clients of these get no answer there.',
  },
  {
    name: 'UsherAcceptPaused',
    severity: 'critical',
    for: '1m',
    expr: 'usher_accept_paused == 1',
    summary: 'An Usher takes no new connections.',
    description:
      'Usher at {{ $labels.instance }} is short of file descriptors; new clients wait.',
  },
  {
    name: 'UsherServiceFailing',
    severity: 'warning',
    for: '10m',
    expr: `${failures}
  / ${byService} (rate(usher_connections_accepted_total[5m])) > 0.05
and
${failures} > 0.1`,
    summary: 'Connections to a Service fail, and not by their clients.',
    description:
      'Of connections to {{ $labels.service_port }} {{ $value | humanizePercentage }} reach no endpoint or are reset by it.',
  },
  {
    name: 'UsherDialsRetried',
    severity: 'warning',
    for: '15m',
    expr: `${retries}
  / ${byService} (rate(usher_dial_attempts_total[5m])) > 0.2
and
${retries} > 0.1`,
    summary: 'Endpoints of a Service often refuse or are silent.',
    description:
      '{{ $value | humanizePercentage }} of the attempts to connect to endpoints of {{ $labels.service_port }} are repetitions.',
  },
  {
    name: 'UsherEndpointFlapping',
    severity: 'warning',
    for: '5m',
    expr: 'max by (service_port, protocol, endpoint) (changes(usher_endpoint_up[15m])) >= 6',
    summary: 'An endpoint goes up and down by its checks.',
    description:
      'Checks of {{ $labels.endpoint }} of {{ $labels.service_port }} have turned {{ $value }} times in 15 minutes.',
  },
  {
    name: 'UsherWorkerRestarts',
    severity: 'warning',
    expr: 'sum by (job, instance) (increase(usher_relay_worker_restarts_total[1h])) > 0',
    summary: 'A thread of a relay died, and its connections with it.',
    description:
      'Workers of the relay at {{ $labels.instance }} died in the last hour and were started again.',
  },
  {
    name: 'UsherDataPlaneRestarts',
    severity: 'warning',
    expr: 'sum by (job, instance) (increase(usher_data_plane_restarts_total[1h])) > 0',
    summary: 'The process of a relay died, and its connections with it.',
    description:
      'The process of the relay at {{ $labels.instance }} died in the last hour and was started again.',
  },
  {
    name: 'UsherModeFallback',
    severity: 'warning',
    expr: 'usher_mode_fallbacks_total > 0',
    summary: 'A mode stopped working, and another took its place.',
    description:
      'Usher at {{ $labels.instance }} does not run the mode that it started with; /proxyMode names the present one.',
  },
  {
    name: 'UsherRulesRepaired',
    severity: 'warning',
    expr: `sum by (job, instance) (
  increase(usher_kernel_repairs_total[1h])
    or increase(usher_capture_repairs_total[1h])
    or increase(usher_connect_time_repairs_total[1h])
) > 3`,
    summary: "Another program changes Usher's rules in the kernel again and again.",
    description:
      'Usher at {{ $labels.instance }} had to repair its rules {{ $value | humanize }} times in the last hour.',
  },
  {
    name: 'UsherDescriptors',
    severity: 'warning',
    for: '15m',
    expr: 'usher_fds_used / usher_fds_limit > 0.8',
    summary: 'The file descriptors of an Usher are nearly used up.',
    description:
      'Usher at {{ $labels.instance }} uses {{ $value | humanizePercentage }} of the descriptors it may have.',
  },
  {
    name: 'UsherProblems',
    severity: 'info',
    for: '30m',
    expr: 'usher_problems > 0',
    summary: 'An Usher has configuration problems.',
    description:
      'Usher at {{ $labels.instance }} has {{ $value }} problems with Services or endpoints; /status names them.',
  },
]
