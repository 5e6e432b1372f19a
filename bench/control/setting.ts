import type { RunRecord, TargetRecord } from '../record/record.ts'
import { chooseProxiers, kubeProxyName, measuredProxiers } from '../modes/proxiers.ts'
import { measuredCaptures } from '../rules/captures.ts'
import { ledName } from '../connect-time/record.ts'
import { type ControlOptions, wants } from './options.ts'
import { usherName } from './record.ts'

/** Who is measured: Usher as a process, each way of leading traffic to it, each mode. */
export const controlTargets = (options: ControlOptions): readonly TargetRecord[] => [
  ...(wants(options, 'services') || wants(options, 'admin') ? [usher] : []),
  ...(wants(options, 'rules') ? measuredCaptures.map(captureTarget) : []),
  ...(wants(options, 'modes') ? measuredIn(options).map(modeTarget) : []),
  ...(wants(options, 'connect-time') ? [led] : []),
]

const usher: TargetRecord = {
  name: usherName,
  title: 'Usher as a process, relay and all, without a capture',
  kind: 'usher',
  command: 'usher run --capture none --drain-timeout=0',
  config: '',
}

const led: TargetRecord = {
  name: ledName,
  title: "Usher's connect-time steering, in a process of its own that is led by it",
  kind: 'usher',
  command: '',
  config: '',
}

const captureTarget = ({ name }: { readonly name: string }): TargetRecord => ({
  name,
  title: `Usher's capture ${name}, in the process of the bench`,
  kind: 'usher',
  command: '',
  config: '',
})

const measuredIn = ({ modeServices, modeTargets }: ControlOptions): readonly string[] =>
  measuredProxiers.filter(name =>
    modeServices.some(services => chooseProxiers(modeTargets, services).includes(name)),
  )

const modeTarget = (name: string): TargetRecord => ({
  name,
  title:
    name === kubeProxyName
      ? 'What kube-proxy writes for the same Services, by the bench'
      : `Usher's ${name}, in a process of its own`,
  kind: name === kubeProxyName ? 'peer' : 'usher',
  command: '',
  config: '',
})

export const settingOf = (options: ControlOptions): RunRecord['setting'] => [
  ...(wants(options, 'services') ? serviceSetting(options) : []),
  ...(wants(options, 'rules') ? [ruleSetting(options)] : []),
  ...(wants(options, 'modes') ? [modeSetting(options)] : []),
  ...(wants(options, 'connect-time') ? [ledSetting(options)] : []),
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

const modeSetting = (options: ControlOptions): RunRecord['setting'][number] => {
  const { modeServices, modeEndpoints, modeChanges } = options
  const services = `${modeServices.join(', ')} Services of ${modeEndpoints} endpoints`
  const changes = `${modeChanges} endpoint changes, one after the other`
  return [
    'Kernel modes',
    `${services}; ${changes}; the tools once more in a second network namespace`,
  ]
}

const ledSetting = (options: ControlOptions): RunRecord['setting'][number] => {
  const { modeServices, modeEndpoints, modeChanges } = options
  const services = `${modeServices.join(', ')} Services of ${modeEndpoints} endpoints`
  return [
    'Connect time',
    `${services}; ${modeChanges} endpoint changes, one after the other; a cgroup and a network namespace of its own for each round`,
  ]
}
