import type { ServicePort } from '../../model/snapshot.ts'
import { type ControlDeps, needsUserspace } from './carry-out.ts'
import { shortName } from './named-service-ports.ts'

interface Relayed {
  readonly listeners: readonly string[]
  /** Of each of the others why it is not told of, in words. */
  readonly notes: readonly string[]
}

/**
 * Names of those whose connections a relay carries; throws where the kernel carries them all.
 * `unseen`: what that means.
 */
export const relayedOf = (
  deps: ControlDeps,
  servicePorts: readonly ServicePort[],
  unseen: string,
): Relayed => {
  const names = namesOf(servicePorts.filter(isTcp))
  const others = namesOf(servicePorts.filter(port => !isTcp(port)))
  const kernels = carriedByKernel(deps)
  const listeners = names.filter(name => !kernels.has(name))
  const unheard = names.filter(name => kernels.has(name))
  if (listeners.length === 0 && unheard.length > 0) needsUserspace(deps, unseen)
  const notes = [
    ...others.map(name => `${shortName(name)}: only TCP connections are told of`),
    ...unheard.map(
      name => `${shortName(name)}: the kernel forwards its connections, and ${unseen}`,
    ),
  ]
  return { listeners, notes }
}

const isTcp = ({ protocol }: ServicePort): boolean => protocol === 'TCP'

const namesOf = (some: readonly ServicePort[]): readonly string[] => [
  ...new Set(some.map(({ name }) => name)),
]

/** Names of ServicePorts. */
const carriedByKernel = ({ mode }: ControlDeps): ReadonlySet<string> => {
  // Most ask each second.
  if (mode.name === 'userspace') return new Set()
  const carried = mode.placements.filter(({ vips }) =>
    vips.some(({ capture }) => capture === 'kernel'),
  )
  return new Set(namesOf(carried.map(({ servicePort }) => servicePort)))
}
