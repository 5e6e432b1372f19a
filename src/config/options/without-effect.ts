import { group, node, type Row } from '../row.ts'
import { anyText, oneOf, onOff, type OptionType } from '../types/basic.ts'
import { duration, goSpan, int32 } from '../types/quantities.ts'
import { vmodule } from '../types/pairs.ts'

const windows = 'outside Windows'
const log = 'here: Usher logs to standard output, all of it at one level'
const byAccident = 'here: kube-proxy had it by accident, from libraries'

const contentType = oneOf([
  'application/vnd.kubernetes.protobuf',
  'application/json',
  'application/cbor',
])

/** A flag whose value is checked and then dropped: it is in no help, but named in a warning. */
const ignored = (
  type: OptionType<unknown>,
  noEffect: string,
  of: Pick<Row, 'field' | 'default'> = {},
) => ({ type, noEffect, help: '', ...of })

/** One that kube-proxy gave up in 1.26, with klog's own. */
const old = (type: OptionType<unknown>, byDefault: string, noEffect: string) =>
  ignored(type, noEffect, { default: byDefault })

/** What kube-proxy has for Windows, for its own log, and had in older versions. */
export const withoutEffect = group('As kube-proxy has them', node, {
  'windows-service': ignored(onOff, windows, { field: 'windowsRunAsService' }),
  'source-vip': ignored(anyText('IP'), windows, { field: 'winkernel.sourceVip' }),
  'network-name': ignored(anyText('NAME'), windows, { field: 'winkernel.networkName' }),
  'enable-dsr': ignored(onOff, windows, { field: 'winkernel.enableDSR' }),
  'root-hnsendpoint-name': ignored(anyText('NAME'), windows, {
    field: 'winkernel.rootHnsEndpointName',
  }),
  'forward-healthcheck-vip': ignored(onOff, windows, {
    field: 'winkernel.forwardHealthCheckVip',
  }),
  vmodule: ignored(vmodule, log, { field: 'logging.vmodule' }),
  'log-flush-frequency': ignored(goSpan, 'here: Usher flushes its log every second', {
    field: 'logging.flushFrequency',
  }),
  'log-json-info-buffer-size': ignored(anyText('QUANTITY'), log, { default: '0' }),
  'log-json-split-stream': ignored(onOff, log),
  'log-text-info-buffer-size': ignored(anyText('QUANTITY'), log, { default: '0' }),
  'log-text-split-stream': ignored(onOff, log),
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
  'cleanup-ipvs': ignored(onOff, "here: --cleanup removes ipvs mode's things always", {
    default: 'true',
  }),
  'kube-api-content-type': ignored(
    contentType,
    'here: Usher speaks JSON to the API server',
    {
      field: 'clientConnection.contentType',
    },
  ),
  'config-sync-period': ignored(
    duration('above zero'),
    'here: everything is gone through again at each --sync-period',
    {
      field: 'configSyncPeriod',
    },
  ),
  profiling: ignored(onOff, 'here: Usher has no profiles to serve', {
    field: 'enableProfiling',
  }),
  'show-hidden-metrics-for-version': ignored(
    anyText('VERSION'),
    'here: Usher hides no metrics',
    { field: 'showHiddenMetricsForVersion' },
  ),
  'resource-container': ignored(
    anyText('PATH'),
    'here: the container runtime chooses the cgroup',
    { field: 'resourceContainer' },
  ),
})
