import { groups } from './rule-groups.ts'

const name = 'usher'
const labels = { 'app.kubernetes.io/name': name }
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
        port: 'metrics',
        // The operator's own label `endpoint` would push aside that of Usher's metrics.
        honorLabels: true,
        relabelings: [
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
