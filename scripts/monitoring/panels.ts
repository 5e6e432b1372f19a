import { unserved } from './causes.ts'

/** A panel of the dashboard, as much of it as differs from others. */
export interface Panel {
  readonly title: string
  /** Shown on a hint; what the numbers mean, where the title doesn't say. */
  readonly hint?: string
  /** Grafana's name of the unit. */
  readonly unit: string
  /** A number with a colour from `redFrom` on; else lines over time. */
  readonly stat?: { readonly redFrom: number | undefined }
  readonly queries: readonly Query[]
}

type Query = readonly [legend: string, expr: string]

export interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

const here = 'instance=~"$instance"'
const ofService = `${here}, service_port=~"$service"`
const each = '{{instance}}'

const rate = (metric: string, matchers: string): string =>
  `rate(${metric}{${matchers}}[$__rate_interval])`

/** The busiest twenty: a cluster may have thousands. */
const top = (expr: string): string => `topk(20, ${expr})`

const byService = (metric: string): string =>
  top(`sum by (service_port) (${rate(metric, ofService)})`)

const p99 = (histogram: string, by: string, matchers: string): string =>
  `histogram_quantile(0.99, sum by (${by}, le) (${rate(`${histogram}_bucket`, matchers)}))`

const stat = (title: string, expr: string, redFrom?: number, hint?: string): Panel => ({
  title,
  unit: 'short',
  stat: { redFrom },
  queries: [['', expr]],
  ...(hint !== undefined && { hint }),
})

const lines = (
  title: string,
  unit: string,
  queries: readonly Query[],
  hint?: string,
): Panel => ({ title, unit, queries, ...(hint !== undefined && { hint }) })

const health: readonly Panel[] = [
  stat('Ushers', `count(usher_build_info{${here}})`),
  stat('Not healthy', `count(usher_healthy{${here}} == 0) or vector(0)`, 1),
  stat('Source not read', `count(usher_source_ok{${here}} == 0) or vector(0)`, 1),
  stat('Addresses not listened on', `sum(usher_listeners{${here}, state="failed"})`, 1),
  stat('Short of descriptors', `sum(usher_accept_paused{${here}})`, 1),
  stat('Problems', `sum(usher_problems{${here}})`, 1, 'usher status names them.'),
  lines(
    'Connections that reached no endpoint',
    'percentunit',
    [
      [
        'share',
        `sum(${rate('usher_connections_failed_total', `${ofService}, cause=~"${unserved}"`)})
  / sum(${rate('usher_connections_accepted_total', ofService)})`,
      ],
    ],
    'What the alerts on the error budget are about; 0.1 % is the budget.',
  ),
  lines(
    'Age of the state',
    's',
    [[each, `usher_source_age_seconds{${here}}`]],
    'With the Kubernetes API about a minute at most; with files it grows until one changes.',
  ),
  lines(
    'Services by state',
    'short',
    [['{{state}}', `count by (state) (usher_service_state{${here}} == 1)`]],
    'Of each Usher, node and IP family; failing and down are what clients suffer from.',
  ),
  lines('Modes and versions', 'short', [
    ['{{mode}}', `count by (mode) (usher_proxy_mode{${here}})`],
    ['{{version}}', `count by (version) (usher_build_info{${here}})`],
  ]),
]

const traffic: readonly Panel[] = [
  lines('New connections', 'cps', [
    ['{{service_port}}', byService('usher_connections_accepted_total')],
  ]),
  lines('Open connections', 'short', [
    [
      '{{service_port}}',
      top(`sum by (service_port) (usher_connections_active{${ofService}})`),
    ],
  ]),
  lines('Bytes', 'Bps', [
    [
      '{{service_port}} {{direction}}',
      top(
        `sum by (service_port, direction) (${rate('usher_relayed_bytes_total', ofService)})`,
      ),
    ],
  ]),
  lines(
    'Clients that wait',
    'short',
    [
      [
        '{{service_port}} for an endpoint',
        top(`sum by (service_port) (usher_connections_held{${ofService}}) > 0`),
      ],
      [
        '{{service_port}} for a place',
        top(`sum by (service_port) (usher_connections_queued{${ofService}}) > 0`),
      ],
    ],
    'Only Services and routes with hold, a pause or maxConnections have any.',
  ),
  lines('UDP flows', 'short', [
    [
      '{{service_port}}',
      top(`sum by (service_port) (usher_udp_flows_active{${ofService}})`),
    ],
  ]),
  lines('UDP datagrams', 'pps', [
    [
      '{{service_port}} {{direction}}',
      top(
        `sum by (service_port, direction) (${rate('usher_udp_datagrams_total', ofService)})`,
      ),
    ],
  ]),
]

const failures: readonly Panel[] = [
  lines(
    'Connections that failed, by cause',
    'cps',
    [
      [
        '{{cause}}',
        `sum by (cause) (${rate('usher_connections_failed_total', ofService)})`,
      ],
    ],
    'Who ended it, then when: C client, S endpoint, R resources, P policy; small letters are timeouts.',
  ),
  lines('Connections that reached no endpoint, by Service', 'cps', [
    [
      '{{service_port}} {{cause}}',
      top(
        `sum by (service_port, cause) (${rate('usher_connections_failed_total', `${ofService}, cause=~"${unserved}"`)})`,
      ),
    ],
  ]),
  lines('Retries', 'cps', [['{{service_port}}', byService('usher_dial_retries_total')]]),
  lines('Refused, as too many waited', 'cps', [
    ['{{service_port}} for an endpoint', byService('usher_hold_refused_total')],
    ['{{service_port}} for a place', byService('usher_queue_refused_total')],
  ]),
  lines('UDP datagrams dropped, by reason', 'pps', [
    ['{{reason}}', `sum by (reason) (${rate('usher_udp_drops_total', ofService)})`],
  ]),
]

const endpoints: readonly Panel[] = [
  lines(
    'Down by their checks',
    'short',
    [
      [
        '{{service_port}} {{endpoint}}',
        `count by (service_port, endpoint) (usher_endpoint_up{${ofService}} == 0)`,
      ],
    ],
    'How many Ushers find the endpoint down. Endpoints without a check are not here.',
  ),
  lines('Time to connect, 99th percentile', 's', [
    [
      '{{service_port}}',
      top(p99('usher_dial_duration_seconds', 'service_port', ofService)),
    ],
  ]),
  lines('Round-trip time', 's', [
    [
      '{{service_port}} {{endpoint}}',
      top(`max by (service_port, endpoint) (usher_endpoint_rtt_seconds{${ofService}})`),
    ],
  ]),
  lines('Segments sent again', 'pps', [
    [
      '{{service_port}} {{endpoint}}',
      top(
        `sum by (service_port, endpoint) (${rate('usher_endpoint_retransmits_total', ofService)})`,
      ),
    ],
  ]),
  lines('Orders of operators', 'short', [
    ['{{order}}', `sum by (order) (usher_operator_orders{${here}})`],
  ]),
]

const process: readonly Panel[] = [
  lines(
    'Processor',
    'short',
    [[each, rate('process_cpu_seconds_total', here)]],
    'Cores.',
  ),
  lines('Memory', 'bytes', [[each, `process_resident_memory_bytes{${here}}`]]),
  lines('Memory of JavaScript', 'bytes', [
    [`${each} used`, `nodejs_heap_size_used_bytes{${here}}`],
    [`${each} buffers`, `nodejs_external_memory_bytes{${here}}`],
  ]),
  lines('Descriptors used', 'percentunit', [
    [each, `usher_fds_used{${here}} / usher_fds_limit{${here}}`],
  ]),
  lines('Main thread busy', 'percentunit', [
    [each, `usher_event_loop_utilization{${here}}`],
  ]),
  lines('Main thread late', 's', [
    [each, `usher_event_loop_delay_seconds{${here}, quantile="0.99"}`],
  ]),
  lines('Held by workers', 'bytes', [
    [each, `sum by (instance) (usher_relay_held_bytes{${here}})`],
  ]),
  lines('Restarts in an hour', 'short', [
    [
      `${each} worker`,
      `sum by (instance) (increase(usher_relay_worker_restarts_total{${here}}[1h]))`,
    ],
    [
      `${each} process of the relay`,
      `sum by (instance) (increase(usher_data_plane_restarts_total{${here}}[1h]))`,
    ],
  ]),
]

const rules: readonly Panel[] = [
  lines('Syncs', 'ops', [
    [
      each,
      `sum by (instance) (${rate('kubeproxy_sync_proxy_rules_duration_seconds_count', here)})`,
    ],
  ]),
  lines('Time of a sync, 99th percentile', 's', [
    [each, p99('kubeproxy_sync_proxy_rules_duration_seconds', 'instance', here)],
  ]),
  lines(
    'From a change to its effect, 99th percentile',
    's',
    [[each, p99('kubeproxy_network_programming_duration_seconds', 'instance', here)]],
    'From the change of an endpoint in the cluster until this node goes by it.',
  ),
  lines('Changes that wait', 'short', [
    [
      `${each} of Services`,
      `kubeproxy_sync_proxy_rules_service_changes_pending{${here}}`,
    ],
    [
      `${each} of endpoints`,
      `kubeproxy_sync_proxy_rules_endpoint_changes_pending{${here}}`,
    ],
  ]),
  lines('Requests to the API server', 'reqps', [
    ['{{code}}', `sum by (code) (${rate('rest_client_requests_total', here)})`],
  ]),
  lines(
    'Rules repaired in an hour',
    'short',
    [
      [
        `${each} of the mode`,
        `sum by (instance) (increase(usher_kernel_repairs_total{${here}}[1h]))`,
      ],
      [
        `${each} of the capture`,
        `sum by (instance) (increase(usher_capture_repairs_total{${here}}[1h]))`,
      ],
    ],
    'Another program had changed them.',
  ),
  lines('Rules refused by the kernel', 'ops', [
    [
      `${each} iptables`,
      `sum by (instance) (${rate('kubeproxy_sync_proxy_rules_iptables_restore_failures_total', here)})`,
    ],
    [
      `${each} nftables`,
      `sum by (instance) (${rate('kubeproxy_sync_proxy_rules_nftables_sync_failures_total', here)})`,
    ],
  ]),
  lines(
    'Services without an endpoint on their node',
    'short',
    [
      [
        `${each} {{traffic_policy}}`,
        `sum by (instance, traffic_policy) (kubeproxy_sync_proxy_rules_no_local_endpoints_total{${here}})`,
      ],
    ],
    'ServicePorts with the policy Local whose clients get no answer on this node.',
  ),
]

/** The rows of the dashboard, from above. */
export const rows: readonly Row[] = [
  { title: 'Health', panels: health },
  { title: 'Traffic by Service', panels: traffic },
  { title: 'Failures by cause', panels: failures },
  { title: 'Endpoints', panels: endpoints },
  { title: 'Process', panels: process },
  { title: 'Rules and syncs', panels: rules },
]

/**
 * What the two lists at the top offer, and what `All` of them stands for: null is each by its
 * name, as the figures of the process are not of Usher alone.
 */
export const choices = [
  { name: 'instance', query: 'label_values(usher_build_info, instance)', all: null },
  {
    name: 'service',
    query: 'label_values(usher_relayed_bytes_total, service_port)',
    all: '.+',
  },
] as const

export const dashboardExpressions: readonly string[] = rows.flatMap(({ panels }) =>
  panels.flatMap(({ queries }) => queries.map(([, expr]) => expr)),
)
