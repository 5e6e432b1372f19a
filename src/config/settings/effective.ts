import { isGiven, leafAt, type Tree, valueAt } from '../kube-proxy/fields.ts'
import type { KubeProxyConfiguration } from '../kube-proxy/shape.ts'
import { valueOf } from '../parse.ts'
import { camelCase, type OptionsOf } from '../typed.ts'
import { duration } from '../duration.ts'
import { flagsWithField, type Given } from './from-flags.ts'
import { whyNoEffect } from './no-effect.ts'
import { periods } from './periods.ts'

/** Everything that decides what `usher run` does. */
export interface Decision {
  readonly given: Given
  /** What the flags alone amount to. */
  readonly options: OptionsOf<'run'>
  /** What the file gives; undefined without --config. */
  readonly file: Tree | undefined
  readonly configuration: KubeProxyConfiguration
}

/** What kube-proxy had for --udp-timeout, and wrote into files of its own. */
const oldUdpTimeout = '250ms'

/** How long UDP clients are remembered by the file; undefined when it does not say. */
const udpTimeoutOf = (configuration: KubeProxyConfiguration): string | undefined =>
  configuration.udpIdleTimeout ?? configuration.udpTimeoutMilliseconds

/** True when the file has kube-proxy's old default, which cut off slow replies. */
export const isOldUdpTimeout = ({ given, configuration }: Decision): boolean =>
  !given.has('udp-timeout') && udpTimeoutOf(configuration) === oldUdpTimeout

const levelOf = (verbosity: number): 'info' | 'debug' | 'trace' =>
  verbosity >= 6 ? 'trace' : verbosity >= 4 ? 'debug' : 'info'

const logging = (
  decision: Decision,
): Pick<OptionsOf<'run'>, 'logLevel' | 'logFormat'> => {
  const { given, options, file, configuration } = decision
  const { verbosity, format } = configuration.logging
  const isFormatGiven =
    given.has('logging-format') || (file !== undefined && isGiven(file, 'logging.format'))
  const asked = format === 'json' ? 'json' : 'pretty'
  return {
    logLevel: given.has('log-level') ? options.logLevel : levelOf(verbosity),
    logFormat: given.has('log-format') || !isFormatGiven ? options.logFormat : asked,
  }
}

const udpTimeout = (decision: Decision): number => {
  const { given, options, configuration } = decision
  const text = udpTimeoutOf(configuration)
  if (given.has('udp-timeout') || text === undefined || text === oldUdpTimeout)
    return options.udpTimeout
  const row = { ...udpRow, type: duration('above zero') }
  return valueOf('run', 'udpIdleTimeout', row, [text]) as number
}

const udpRow = { commands: [], group: 'UDP', default: '', help: '' } as const

/**
 * The options that `usher run` goes by: a field of the configuration decides over the
 * default of its flag. Throws UsageError for values that kube-proxy could do something
 * with and Usher can't, like a period of years.
 */
export const effectiveOptions = (decision: Decision): OptionsOf<'run'> => {
  const { file, options, configuration } = decision
  const values: Record<string, unknown> = { ...options }
  for (const { flag, row, field } of flagsWithField) {
    // kube-proxy does not look at the sections of other modes either.
    if (whyNoEffect(row, configuration.mode) !== undefined) continue
    const text = leafAt(field).toText(valueAt(configuration, field) ?? {})
    const from = file === undefined ? `--${flag}` : field
    values[camelCase(flag)] = valueOf('run', from, row, [text])
  }
  const fromFields = values as OptionsOf<'run'>
  return {
    ...fromFields,
    // Of kernel modes the parts that are given may not fit; see there.
    ...periods(decision, fromFields).userspace,
    ...logging(decision),
    udpTimeout: udpTimeout(decision),
  }
}
