import type { RunRecord, TargetRecord } from '../record/record.ts'
import { measuredProxiers } from '../modes/proxiers.ts'
import { measuredCaptures } from '../rules/captures.ts'
import { type ControlOptions, wants } from './options.ts'
import { usherName } from './record.ts'

/** Who is measured: Usher as a process, each way of leading traffic to it, each mode. */
export const controlTargets = (options: ControlOptions): readonly TargetRecord[] => [
  ...(wants(options, 'services') ? [usher] : []),
  ...(wants(options, 'rules') ? measuredCaptures.map(captureTarget) : []),
  ...(wants(options, 'modes') ? measuredProxiers.map(modeTarget) : []),
]

const usher: TargetRecord = {
  name: usherName,
  title: 'Usher as a process, relay and all, without a capture',
  kind: 'usher',
  command: 'usher run --capture none --min-sync-period=0 --drain-timeout=0',
  config: '',
}

const captureTarget = ({ name }: { readonly name: string }): TargetRecord => ({
  name,
  title: `Usher's capture ${name}, in the process of the bench`,
  kind: 'usher',
  command: '',
  config: '',
})

const modeTarget = (name: string): TargetRecord => ({
  name,
  title: `Usher's mode ${name}, in a process of its own`,
  kind: 'usher',
  command: '',
  config: '',
})

export const settingOf = (options: ControlOptions): RunRecord['setting'] => [
  ...(wants(options, 'services') ? serviceSetting(options) : []),
  ...(wants(options, 'rules') ? [ruleSetting(options)] : []),
  ...(wants(options, 'modes') ? [modeSetting(options)] : []),
]

const serviceSetting = (options: ControlOptions): RunRecord['setting'] => {
  const { services, endpointsPerSlice, changesPerSecond, seconds } = options
  return [
    ['Services', `${services}, as many slices of ${endpointsPerSlice} endpoints`],
    ['Lists', options.streamingLists ? 'streamed' : 'in pages'],
    ['Credentials', options.user],
    ['Changes', `${changesPerSecond} endpoint changes a second for ${seconds} s`],
    ['CPUs', 'shared by Usher, the API server and the bench'],
  ]
}

const ruleSetting = ({ vips }: ControlOptions): RunRecord['setting'][number] => [
  'Rules',
  `for ${vips.join(', ')} VIPs, each in a network namespace of its own`,
]

const modeSetting = ({
  modeServices,
  modeChanges,
}: ControlOptions): RunRecord['setting'][number] => [
  'Kernel modes',
  `${modeServices.join(', ')} Services of two endpoints; ${modeChanges} endpoint changes, one after the other; the tools once more in a second network namespace`,
]
