import type { RunRecord, TargetRecord } from '../../src/bench/record/record.ts'
import { measuredCaptures } from '../rules/captures.ts'
import type { ControlOptions } from './options.ts'
import { usherName } from './record.ts'

/** Who is measured: Usher as a process, and each way of leading traffic to it. */
export const controlTargets = ({ only }: ControlOptions): readonly TargetRecord[] => [
  ...(only === 'rules' ? [] : [usher]),
  ...(only === 'services' ? [] : measuredCaptures.map(captureTarget)),
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

export const settingOf = (options: ControlOptions): RunRecord['setting'] => [
  ...(options.only === 'rules' ? [] : serviceSetting(options)),
  ...(options.only === 'services' ? [] : [ruleSetting(options)]),
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
