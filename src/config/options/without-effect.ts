import { group, node } from '../row.ts'
import { anyText, onOff, type OptionType } from '../types/basic.ts'
import { goSpan, int32 } from '../types/quantities.ts'
import { vmodule } from '../types/pairs.ts'

const windows = 'outside Windows'
const log = 'here: Usher logs to standard output, all of it at one level'
const byAccident = 'here: kube-proxy had it by accident, from libraries'

/** A flag that kube-proxy gave up in 1.26, with klog's own. */
const old = (type: OptionType<unknown>, byDefault: string, noEffect: string) => ({
  type,
  default: byDefault,
  noEffect,
  help: 'Before kube-proxy 1.26.',
})

/** What kube-proxy has for Windows, for its own log, and had in older versions. */
export const withoutEffect = group('As kube-proxy has them', node, {
  'windows-service': {
    type: onOff,
    field: 'windowsRunAsService',
    noEffect: windows,
    help: 'Run as a service.',
  },
  'source-vip': {
    type: anyText('IP'),
    field: 'winkernel.sourceVip',
    noEffect: windows,
    help: 'The source address of an overlay network.',
  },
  'network-name': {
    type: anyText('NAME'),
    field: 'winkernel.networkName',
    noEffect: windows,
    help: 'The HNS network.',
  },
  'enable-dsr': {
    type: onOff,
    field: 'winkernel.enableDSR',
    noEffect: windows,
    help: 'Direct server return.',
  },
  'root-hnsendpoint-name': {
    type: anyText('NAME'),
    field: 'winkernel.rootHnsEndpointName',
    noEffect: windows,
    help: 'The HNS endpoint of the root namespace.',
  },
  'forward-healthcheck-vip': {
    type: onOff,
    field: 'winkernel.forwardHealthCheckVip',
    noEffect: windows,
    help: 'Pass health checks of a load balancer on.',
  },
  vmodule: {
    type: vmodule,
    field: 'logging.vmodule',
    noEffect: log,
    help: 'Levels for single files of kube-proxy.',
  },
  'log-flush-frequency': {
    type: goSpan,
    field: 'logging.flushFrequency',
    noEffect: 'here: Usher flushes its log every second',
    help: 'How often the log is flushed.',
  },
  'log-json-info-buffer-size': {
    type: anyText('QUANTITY'),
    default: '0',
    noEffect: log,
    help: 'Bytes of info records that are gathered.',
  },
  'log-json-split-stream': {
    type: onOff,
    noEffect: log,
    help: 'Errors to standard error, the rest to standard output.',
  },
  'log-text-info-buffer-size': {
    type: anyText('QUANTITY'),
    default: '0',
    noEffect: log,
    help: 'The same for the text format.',
  },
  'log-text-split-stream': {
    type: onOff,
    noEffect: log,
    help: 'The same for the text format.',
  },
  'add-dir-header': old(onOff, 'false', log),
  alsologtostderr: old(onOff, 'false', log),
  'boot-id-file': old(anyText('FILE'), '', byAccident),
  'machine-id-file': old(anyText('FILE'), '', byAccident),
  'azure-container-registry-config': old(anyText('FILE'), '', byAccident),
  'log-backtrace-at': old(anyText('FILE:LINE'), '', log),
  'log-dir': old(anyText('PATH'), '', log),
  'log-file': old(anyText('FILE'), '', log),
  'log-file-max-size': old(int32(0), '1800', log),
  logtostderr: old(onOff, 'true', log),
  'one-output': old(onOff, 'false', log),
  'skip-headers': old(onOff, 'false', log),
  'skip-log-headers': old(onOff, 'false', log),
  stderrthreshold: old(anyText('LEVEL'), '', log),
  profiling: {
    type: onOff,
    field: 'enableProfiling',
    noEffect: 'here: Usher has no profiles to serve',
    help: 'Profiles at the metrics address.',
  },
  'show-hidden-metrics-for-version': {
    type: anyText('VERSION'),
    field: 'showHiddenMetricsForVersion',
    noEffect: 'here: Usher hides no metrics',
    help: 'Metrics that a version has hidden.',
  },
  'resource-container': {
    type: anyText('PATH'),
    field: 'resourceContainer',
    noEffect: 'here: the container runtime chooses the cgroup',
    help: 'A cgroup to run in; before kube-proxy 1.16.',
  },
})
