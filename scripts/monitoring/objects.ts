import { groups } from './rule-groups.ts'

const name = 'usher'
const labels = { 'app.kubernetes.io/name': name }
/** As `deploy/kubernetes/base/config.yaml` has it. */
const port = 10_249
const monitoring = 'monitoring.coreos.com/v1'

export const prometheusRule = {
  apiVersion: monitoring,
  kind: 'PrometheusRule',
  metadata: { name, labels },
  spec: { groups },
}

export const podMonitor = {
  apiVersion: monitoring,
  kind: 'PodMonitor',
  metadata: { name, labels },
  spec: {
    selector: { matchLabels: labels },
    podMetricsEndpoints: [
      {
        // The operator's own label `endpoint` would push aside that of Usher's metrics.
        honorLabels: true,
        relabelings: [
          // A pod that declares ports of the node can't take over from another one on it: so there is
          // one target for each container, without a port, and an IPv6 address has no brackets.
          {
            sourceLabels: ['__meta_kubernetes_pod_container_name'],
            regex: 'usher',
            action: 'keep',
          },
          ...[
            ['([0-9.]+)', `$1:${port}`],
            ['(.*:.*)', `[$1]:${port}`],
          ].map(([regex, replacement]) => ({
            sourceLabels: ['__meta_kubernetes_pod_ip'],
            regex,
            targetLabel: '__address__',
            replacement,
          })),
          // What alerts and dashboards for kube-proxy look for.
          { targetLabel: 'job', replacement: 'kube-proxy' },
          { sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' },
        ],
        metricRelabelings: [
          // Its version is Usher's, which KubeVersionMismatch would compare with the cluster's.
          { sourceLabels: ['__name__'], regex: 'kubernetes_build_info', action: 'drop' },
        ],
      },
    ],
  },
}
