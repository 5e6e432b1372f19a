import type { ProgramDefinition } from '../bpf/bpf.ts'
import { backward } from './backward.ts'
import { failures } from './failures.ts'
import { type Features, forward } from './forward.ts'

/** Of enum bpf_prog_type. */
const cgroupSockAddr = 18
const sockOps = 13

/** Of enum bpf_attach_type. */
const attachTypes = {
  sockOps: 3,
  connect4: 10,
  connect6: 11,
  sendmsg4: 14,
  sendmsg6: 15,
  recvmsg4: 19,
  recvmsg6: 20,
  getpeername4: 29,
  getpeername6: 30,
} as const

/** All programs, in the order in which they are to be attached: whoever leads comes last. */
export const programsFor = (features: Features): readonly ProgramDefinition[] => {
  const of = (
    name: Exclude<keyof typeof attachTypes, 'sockOps'>,
    program: ProgramDefinition['program'],
  ): ProgramDefinition => ({
    name: `us_${name}`,
    type: cgroupSockAddr,
    attachType: attachTypes[name],
    program,
  })
  const remembering = {
    name: 'us_failures',
    type: sockOps,
    attachType: attachTypes.sockOps,
    program: failures(),
  }
  return [
    ...(features.avoidsFailed ? [remembering] : []),
    of('getpeername4', backward(4, 'peer')),
    of('getpeername6', backward(6, 'peer')),
    of('recvmsg4', backward(4, 'receive')),
    of('recvmsg6', backward(6, 'receive')),
    of('sendmsg4', forward(4, 'send', features)),
    of('sendmsg6', forward(6, 'send', features)),
    of('connect4', forward(4, 'connect', features)),
    of('connect6', forward(6, 'connect', features)),
  ]
}
