import { group, node, type Row } from '../row.ts'
import { anyText, oneOf, onOff, vmodule } from '../types/basic.ts'
import { duration, goSpan, int32 } from '../types/quantities.ts'

type Rows = Readonly<Record<string, Pick<Row, 'type' | 'field' | 'default'>>>

type Ignored<R> = {
  readonly [F in keyof R]: R[F] & { readonly noEffect: string; readonly help: string }
}

/** Flags whose values are checked and then dropped: they are in no help, but named in a warning. */
const ignored = <const R extends Rows>(noEffect: string, rows: R): Ignored<R> => {
  const all: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries(rows).map(([flag, row]) => [flag, { ...row, noEffect, help: '' }]),
  )
  return all as Ignored<R>
}

const contentType = oneOf([
  'application/vnd.kubernetes.protobuf',
  'application/json',
  'application/cbor',
])

/** What kube-proxy has for Windows, for its own log, and had in older versions. */
export const withoutEffect = group('kube-proxy compatibility', node, {
  ...ignored('outside Windows', {
    'windows-service': { type: onOff, field: 'windowsRunAsService' },
    'source-vip': { type: anyText('IP'), field: 'winkernel.sourceVip' },
    'network-name': { type: anyText('NAME'), field: 'winkernel.networkName' },
    'enable-dsr': { type: onOff, field: 'winkernel.enableDSR' },
    'root-hnsendpoint-name': {
      type: anyText('NAME'),
      field: 'winkernel.rootHnsEndpointName',
    },
    'forward-healthcheck-vip': { type: onOff, field: 'winkernel.forwardHealthCheckVip' },
  }),
  // The last of them kube-proxy gave up in 1.26, with klog's own.
  ...ignored('here: Usher logs to standard output, all of it at one level', {
    vmodule: { type: vmodule, field: 'logging.vmodule' },
    'log-json-info-buffer-size': { type: anyText('QUANTITY'), default: '0' },
    'log-json-split-stream': { type: onOff },
    'log-text-info-buffer-size': { type: anyText('QUANTITY'), default: '0' },
    'log-text-split-stream': { type: onOff },
    'add-dir-header': { type: onOff },
    alsologtostderr: { type: onOff },
    'log-backtrace-at': { type: anyText('FILE:LINE') },
    'log-dir': { type: anyText('PATH') },
    'log-file': { type: anyText('FILE') },
    'log-file-max-size': { type: int32(0), default: '1800' },
    logtostderr: { type: onOff, default: 'true' },
    'one-output': { type: onOff },
    'skip-headers': { type: onOff },
    'skip-log-headers': { type: onOff },
    stderrthreshold: { type: anyText('LEVEL') },
  }),
  ...ignored('here: Usher writes its log within 50 ms', {
    'log-flush-frequency': { type: goSpan, field: 'logging.flushFrequency' },
  }),
  ...ignored('here: kube-proxy had it by accident, from libraries', {
    'boot-id-file': { type: anyText('FILE') },
    'machine-id-file': { type: anyText('FILE') },
    'azure-container-registry-config': { type: anyText('FILE') },
  }),
  ...ignored("here: --cleanup removes ipvs mode's things always", {
    'cleanup-ipvs': { type: onOff, default: 'true' },
  }),
  ...ignored('here: Usher speaks JSON to the API server', {
    'kube-api-content-type': { type: contentType, field: 'clientConnection.contentType' },
  }),
  ...ignored('here: everything is gone through again at each --sync-period', {
    'config-sync-period': { type: duration('above zero'), field: 'configSyncPeriod' },
  }),
  ...ignored('here: Usher has no profiles to serve', {
    profiling: { type: onOff, field: 'enableProfiling' },
  }),
  ...ignored('here: Usher hides no metrics', {
    'show-hidden-metrics-for-version': {
      type: anyText('VERSION'),
      field: 'showHiddenMetricsForVersion',
    },
  }),
  ...ignored('here: the container runtime chooses the cgroup', {
    'resource-container': { type: anyText('PATH'), field: 'resourceContainer' },
  }),
})
