import type { ModeName } from '../../mode/mode.ts'
import type { Periods } from '../../mode/periods.ts'
import type { OptionsOf } from '../typed.ts'
import { isGiven, valueAt } from '../kube-proxy/fields.ts'
import type { FieldPath } from '../kube-proxy/shape.ts'
import { goMilliseconds } from '../../util/duration.ts'
import type { Decision } from './effective.ts'

/** Set by a flag to anything, or by the file to anything but zero. */
const isSet = (
  { given, file, configuration }: Decision,
  flag: string,
  path: FieldPath,
): boolean =>
  file === undefined
    ? given.has(flag) && goMilliseconds(String(valueAt(configuration, path))) !== 0
    : isGiven(file, path)

/**
 * How often each mode syncs. --sync-period and --min-sync-period hold for all of them; else
 * each kernel mode has its own section, as kube-proxy has it. Userspace goes by that of
 * iptables where somebody has set it: the default of 1s between two rounds is for the price
 * of an iptables-restore, and a round of its own costs little.
 */
export const periods = (
  decision: Decision,
  effective: OptionsOf<'run'>,
): Readonly<Record<ModeName, Periods>> => {
  const { given, options } = decision
  const own = (section: Periods): Periods => ({
    syncPeriod: given.has('sync-period') ? options.syncPeriod : section.syncPeriod,
    minSyncPeriod: given.has('min-sync-period')
      ? options.minSyncPeriod
      : section.minSyncPeriod,
  })
  const iptables = {
    syncPeriod: effective.iptablesSyncPeriod,
    minSyncPeriod: effective.iptablesMinSyncPeriod,
  }
  const ipvs = {
    syncPeriod: effective.ipvsSyncPeriod,
    minSyncPeriod: effective.ipvsMinSyncPeriod,
  }
  const isSyncSet = isSet(decision, 'iptables-sync-period', 'iptables.syncPeriod')
  const isMinSet = isSet(decision, 'iptables-min-sync-period', 'iptables.minSyncPeriod')
  return {
    iptables: fitting(own(iptables)),
    ipvs: fitting(own(ipvs)),
    userspace: own({
      syncPeriod: isSyncSet ? iptables.syncPeriod : options.syncPeriod,
      minSyncPeriod: isMinSet ? iptables.minSyncPeriod : options.minSyncPeriod,
    }),
  }
}

/** A default of one part must not be at odds with the other part that is given. */
const fitting = ({ syncPeriod, minSyncPeriod }: Periods): Periods => ({
  syncPeriod,
  minSyncPeriod: Math.min(syncPeriod, minSyncPeriod),
})
